// OpenVinoBackend: runs models by OpenVINO's C++ runtime, inside the server.
//
// Both worlds use it: a Triton repository through the Backend interface (`backend: "openvino"`, and the
// backends and platforms of other runtimes whose files OpenVINO reads), a config.json through Load(). Each
// instance of a loaded model is one infer request.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "base/log.h"
#include "base/status.h"
#include "config/ovms_config.h"
#include "scheduling/backend.h"
#include "serving/servable.h"
#include "tensor/buffer.h"

namespace braid {

class OpenVinoBackend final : public Backend {
 public:
  struct Options {
    // Where compiled models are kept (--cache_dir); empty: nowhere.
    std::string cache_directory;
    // A library with operators of the operator's own (--cpu_extension); empty: none.
    std::string cpu_extension;
    // Whether Create() loads it, to see that it can be used; else it is loaded with the first model.
    bool check_extension = true;
    // --gpu-fallback=cpu.
    bool cpu_stands_in = false;
    // Whether a model is refused that a request might crash (string_operations.h, exposed_operations.h), with
    // Fault::kNeedsProcess; one that says itself that it is not isolated is not.
    bool contain_crashes = false;
    // Whether models are served whose types the device replaces with smaller ones (CheckSmallerTypes()).
    bool smaller_types = true;
    // Where outputs are written, which outlives all of them; null: the heap.
    BufferAllocator* output_memory = nullptr;
  };

  // What the runtime needs is loaded with the first model. `log` outlives the backend. Errors: an extension
  // that cannot be used.
  static Result<std::unique_ptr<OpenVinoBackend>> Create(Options options, Logger& log);
  ~OpenVinoBackend() override;

  std::string_view name() const override { return "openvino"; }
  // Backends of runtimes whose models OpenVINO reads, and those whose models are refused with what to do.
  bool StandsInFor(std::string_view backend) const override;
  std::string DefaultFile(const inference::ModelConfig& config,
                          const std::string& version_path) const override;
  // Those that OpenVINO's own plug-in finds; looked for only where an instance group is of KIND_GPU.
  GpuPlacement Gpus(const inference::ModelConfig& config) override;
  Status AutoComplete(const ModelLocation& location, inference::ModelConfig& config) override;
  Result<std::unique_ptr<BackendModel>> Create(const ModelLocation& location,
                                               std::shared_ptr<const inference::ModelConfig> config) override;

  // A model of a config.json, as read and compiled from a version's folder; its instances are not started
  // yet.
  struct LoadedModel {
    // Complete: Dialect::kOvms, platform "OpenVINO", tensors under their mapped names with ranges and
    // layouts, and a configuration that ScheduledModel can run (no batching).
    ServableInfo info;
    std::unique_ptr<BackendModel> model;
  };
  // Blocks while the model is compiled. Errors, as Fault: kFileInvalid, kCannotCompileModel,
  // kReshapeError, kInvalidShape and so on, with details that name the setting.
  Result<LoadedModel> Load(const OvmsModelConfig& config, int64_t version, const std::string& version_path);

 private:
  class Impl;
  explicit OpenVinoBackend(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace braid
