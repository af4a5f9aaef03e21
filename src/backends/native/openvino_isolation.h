// OpenVinoIsolation: OpenVINO's models, each inside the server or in a native worker, as the operator
// (--isolate=openvino) and the model's own configuration want it: parameter ISOLATE of a config.pbtxt, "isolate" of an
// entry of a config.json. Where neither says anything, models that a request might crash have a worker. So have all whose files a
// client has brought.
// What serves them sees no difference but in what a crash costs.
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
    // Whether models are isolated that do not say otherwise.
    bool isolate = false;
    // Outlives the backend.
    NativeWorkers* workers = nullptr;
  };

  // `log` outlives the backend; the backend outlives its models and all their buffers. Errors: an extension that cannot be
  // used.
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

  // Whether a model of a repository has a worker from the start. Errors: parameter ISOLATE is wrong.
  Result<bool> RunsApart(const ModelLocation& location, const inference::ModelConfig& config) const;
  // A task with the settings of this backend.
  NativeTask Task(NativeTask::Kind kind) const;
  NativeTask TritonTask(NativeTask::Kind kind, const ModelLocation& location,
                        const inference::ModelConfig& config) const;

  Result<std::unique_ptr<BackendModel>> CreateApart(const ModelLocation& location,
                                                    const inference::ModelConfig& config);
  Result<OpenVinoBackend::LoadedModel> LoadApart(const OvmsModelConfig& config, int64_t version,
                                                 const std::string& version_path);
  // Whether a model that `status` refuses inside the server is to run apart, which is logged.
  bool GoesApart(const std::string& model, const Status& status);

  const Options options_;
  Logger& log_;
  std::unique_ptr<OpenVinoBackend> inside_;
};

}  // namespace braid
