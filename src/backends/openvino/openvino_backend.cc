#include "backends/openvino/openvino_backend.h"

#include <openvino/openvino.hpp>
#include <utility>

#include "backends/openvino/config_model.h"
#include "backends/openvino/model_files.h"
#include "backends/openvino/openvino_model.h"
#include "backends/openvino/runtime.h"

namespace braid {

class OpenVinoBackend::Impl {
 public:
  Impl(Options options, Logger& log)
      : runtime(std::move(options.cache_directory), std::move(options.cpu_extension)), log(log) {}

  OpenVinoRuntime runtime;
  Logger& log;
};

Result<std::unique_ptr<OpenVinoBackend>> OpenVinoBackend::Create(Options options, Logger& log) {
  const bool extended = !options.cpu_extension.empty();
  auto impl = std::make_unique<Impl>(std::move(options), log);
  if (extended) BRAID_RETURN_IF_ERROR(impl->runtime.Load());
  return std::unique_ptr<OpenVinoBackend>(new OpenVinoBackend(std::move(impl)));
}

OpenVinoBackend::OpenVinoBackend(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
OpenVinoBackend::~OpenVinoBackend() = default;

Result<OpenVinoBackend::LoadedModel> OpenVinoBackend::Load(const OvmsModelConfig& config, int64_t version,
                                                           const std::string& version_path) {
  LoadedModel loaded;
  BRAID_ASSIGN_OR_RETURN(
      loaded.model, LoadConfigModel(config, version, version_path, impl_->runtime, impl_->log, loaded.info));
  return loaded;
}

Status OpenVinoBackend::AutoComplete(const ModelLocation&, inference::ModelConfig&) { return OkStatus(); }

Result<std::unique_ptr<BackendModel>> OpenVinoBackend::Create(const ModelLocation&,
                                                              std::shared_ptr<const inference::ModelConfig>) {
  return UnsupportedError("models of a Triton repository are not run by OpenVINO");
}

}  // namespace braid
