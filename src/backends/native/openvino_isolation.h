// OpenVinoIsolation: runs each OpenVINO model inside the server or in a native worker.
//
// The operator (--isolate=openvino) and the model's own configuration decide: parameter ISOLATE of a
// config.pbtxt, "isolate" of an entry of a config.json. If neither decides, models that a request might crash
// get a worker. Models whose files came from a client always do. Both kinds behave alike; only the effect of
// a crash differs.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "backends/native/native_workers.h"
#include "backends/openvino/openvino_backend.h"
#include "base/log.h"
#include "scheduling/backend.h"

namespace braid {

class OpenVinoIsolation final : public Backend {
 public:
  struct Options {
    OpenVinoBackend::Options openvino = {};
    // Whether to isolate models whose configuration does not decide.
    bool isolate = false;
    // Outlives the backend.
    NativeWorkers* workers = nullptr;
  };

  // `log` outlives the backend; the backend outlives its models and all their buffers. Errors: an extension
  // that cannot be used.
  static Result<std::unique_ptr<OpenVinoIsolation>> Create(Options options, Logger& log);
  ~OpenVinoIsolation() override;

  std::string_view name() const override { return inside_->name(); }
  bool StandsInFor(std::string_view backend) const override { return inside_->StandsInFor(backend); }
  std::string DefaultFile(const inference::ModelConfig& config,
                          const std::string& version_path) const override {
    return inside_->DefaultFile(config, version_path);
  }
  GpuPlacement Gpus(const inference::ModelConfig& config) override { return inside_->Gpus(config); }
  Status AutoComplete(const ModelLocation& location, inference::ModelConfig& config) override;
  Result<std::unique_ptr<BackendModel>> Create(const ModelLocation& location,
                                               std::shared_ptr<const inference::ModelConfig> config) override;

  // See OpenVinoBackend::Load().
  Result<OpenVinoBackend::LoadedModel> Load(const OvmsModelConfig& config, int64_t version,
                                            const std::string& version_path);

 private:
  OpenVinoIsolation(Options options, Logger& log) : options_(std::move(options)), log_(log) {}

  // Whether a model of a repository gets a worker from the start. Errors: a bad parameter ISOLATE.
  Result<bool> RunsApart(const ModelLocation& location, const inference::ModelConfig& config) const;
  // Returns a task with the settings of this backend.
  NativeTask Task(NativeTask::Kind kind) const;
  NativeTask TritonTask(NativeTask::Kind kind, const ModelLocation& location,
                        const inference::ModelConfig& config) const;

  Result<std::unique_ptr<BackendModel>> CreateApart(const ModelLocation& location,
                                                    const inference::ModelConfig& config);
  Result<OpenVinoBackend::LoadedModel> LoadApart(const OvmsModelConfig& config, int64_t version,
                                                 const std::string& version_path);
  // Whether to run a model in a worker after the backend inside the server refused it with `status`; logs
  // that.
  bool GoesApart(const std::string& model, const Status& status);

  const Options options_;
  Logger& log_;
  std::unique_ptr<OpenVinoBackend> inside_;
};

}  // namespace braid
