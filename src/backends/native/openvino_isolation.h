// OpenVinoIsolation: OpenVINO's models, each inside the server or in a native worker, as the operator
// (--isolate=openvino) and the model's own configuration want it: parameter ISOLATE of a config.pbtxt, "isolate" of an
// entry of a config.json. What serves them sees no difference but in what a crash costs.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "backends/native/native_model.h"
#include "backends/openvino/openvino_backend.h"
#include "backends/python/worker_services.h"
#include "backends/python/worker_support.h"
#include "base/log.h"
#include "base/mutex.h"
#include "scheduling/backend.h"

namespace braid {

class OpenVinoIsolation final : public Backend {
 public:
  struct Options {
    OpenVinoBackend::Options openvino = {};
    // Whether models are isolated that do not say otherwise.
    bool isolate = false;
    // The program that is a native worker, and its arguments; see RunNativeWorker().
    std::vector<std::string> program = {};
    std::vector<WorkerLimit> worker_limits = {};
    SegmentBudget::Limits worker_segments = {};
    int64_t sign_in_timeout_ns = 30'000'000'000;
    Arena::Options arena = {};  // of each model's inputs; its worker keeps as much for its outputs
    // Outlives the backend. There is nothing that workers may ask for but the texts of errors.
    const WorkerServices* services = nullptr;
    // Called when the first worker is started. Any thread.
    std::function<Result<std::shared_ptr<WorkerSupport>>()> support = {};
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
  Status AutoComplete(const ModelLocation& location, inference::ModelConfig& config) override;
  Result<std::unique_ptr<BackendModel>> Create(const ModelLocation& location,
                                               std::shared_ptr<const inference::ModelConfig> config) override;

  // See OpenVinoBackend::Load().
  Result<OpenVinoBackend::LoadedModel> Load(const OvmsModelConfig& config, int64_t version,
                                            const std::string& version_path);

 private:
  OpenVinoIsolation(Options options, Logger& log) : options_(std::move(options)), log_(log) {}

  Result<WorkerSpawner*> Spawner();
  // A task with the settings of this backend.
  NativeTask Task(NativeTask::Kind kind) const;
  NativeTask TritonTask(NativeTask::Kind kind, const ModelLocation& location,
                        const inference::ModelConfig& config) const;
  // Has a worker do a task after which it ends.
  Result<NativeAnswer> Do(const std::string& name, const NativeTask& task);
  Result<std::unique_ptr<NativeModel>> MakeModel(const std::string& name, const NativeTask& task,
                                                 std::shared_ptr<const void> files);

  const Options options_;
  Logger& log_;
  std::unique_ptr<OpenVinoBackend> inside_;
  Mutex mutex_;
  std::shared_ptr<WorkerSupport> support_ BRAID_GUARDED_BY(mutex_);
  std::unique_ptr<WorkerSpawner> spawner_ BRAID_GUARDED_BY(mutex_);  // null until it is needed; then constant
};

}  // namespace braid
