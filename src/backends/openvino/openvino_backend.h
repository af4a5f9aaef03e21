// OpenVinoBackend: runs models with OpenVINO's C++ runtime, inside the server.
//
// It serves both kinds of models. Those of a Triton repository come through the Backend interface (`backend:
// "openvino"`, and the backends and platforms of other runtimes whose files OpenVINO reads). Those of a
// config.json come through Load(). Each instance of a loaded model is one infer request.
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
    // Cache of compiled models (--cache_dir); empty: none.
    std::string cache_directory;
    // Library with custom operators (--cpu_extension); empty: none.
    std::string cpu_extension;
    // Whether Create() loads the extension, to check that it works; otherwise the first model loads it.
    bool check_extension = true;
    // --gpu-fallback=cpu.
    bool cpu_stands_in = false;
    // Whether to refuse models that a request might crash (string_operations.h, exposed_operations.h), with
    // Fault::kNeedsProcess. A model whose own configuration turns isolation off is not refused.
    bool contain_crashes = false;
    // Whether to serve models whose types the device replaces with smaller ones (CheckSmallerTypes()).
    bool smaller_types = true;
    // Memory for outputs, which outlives all of them; null: the heap.
    BufferAllocator* output_memory = nullptr;
  };

  // Creates the backend; the first model loads the rest of the runtime. `log` outlives the backend. Errors:
  // an extension that cannot be used.
  static Result<std::unique_ptr<OpenVinoBackend>> Create(Options options, Logger& log);
  ~OpenVinoBackend() override;

  std::string_view name() const override { return "openvino"; }
  // True for backends of runtimes whose models OpenVINO reads. Also true for known backends that it cannot
  // replace: their models are refused with a hint.
  bool StandsInFor(std::string_view backend) const override;
  std::string DefaultFile(const inference::ModelConfig& config,
                          const std::string& version_path) const override;
  // The GPUs that OpenVINO's own plug-in finds; looked up only if an instance group is of KIND_GPU.
  GpuPlacement Gpus(const inference::ModelConfig& config) override;
  Status AutoComplete(const ModelLocation& location, inference::ModelConfig& config) override;
  Result<std::unique_ptr<BackendModel>> Create(const ModelLocation& location,
                                               std::shared_ptr<const inference::ModelConfig> config) override;

  // A compiled model of a config.json; its instances are not started yet.
  struct LoadedModel {
    // Complete: Dialect::kOvms, platform "OpenVINO", tensors under their mapped names with ranges and
    // layouts, and a configuration that ScheduledModel can run (no batching).
    ServableInfo info;
    std::unique_ptr<BackendModel> model;
  };
  // Reads the model from `version_path` and compiles it; blocks. Errors, as Fault: kFileInvalid,
  // kCannotCompileModel, kReshapeError, kInvalidShape and so on; the text names the setting.
  Result<LoadedModel> Load(const OvmsModelConfig& config, int64_t version, const std::string& version_path);

 private:
  class Impl;
  explicit OpenVinoBackend(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace braid
