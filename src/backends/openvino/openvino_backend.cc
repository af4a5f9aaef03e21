#include "backends/openvino/openvino_backend.h"

#include <algorithm>
#include <openvino/openvino.hpp>
#include <optional>
#include <utility>

#include "backends/openvino/config_model.h"
#include "backends/openvino/model_files.h"
#include "backends/openvino/openvino_errors.h"
#include "backends/openvino/openvino_model.h"
#include "backends/openvino/runtime.h"
#include "backends/openvino/triton_files.h"
#include "backends/openvino/triton_model.h"
#include "config/known_backends.h"

namespace braid {
namespace {

// The status of an exception that OpenVINO is not expected to throw.
Status Unexpected(const std::string& text) { return InternalError("OpenVINO: " + text); }

template <class T, class Function>
Result<T> GuardedResult(const Function& function) {
  std::optional<Result<T>> result;
  BRAID_RETURN_IF_ERROR(Guarded([&] { result.emplace(function()); }, Unexpected));
  return *std::move(result);
}

}  // namespace

class OpenVinoBackend::Impl {
 public:
  Impl(Options options, Logger& log)
      : cpu_stands_in(options.cpu_stands_in),
        runtime(std::move(options.cache_directory), std::move(options.cpu_extension), options.output_memory,
                options.contain_crashes, options.smaller_types),
        log(log) {}

  const bool cpu_stands_in;
  OpenVinoRuntime runtime;
  Logger& log;
};

Result<std::unique_ptr<OpenVinoBackend>> OpenVinoBackend::Create(Options options, Logger& log) {
  const bool extended = options.check_extension && !options.cpu_extension.empty();
  auto impl = std::make_unique<Impl>(std::move(options), log);
  if (extended) BRAID_RETURN_IF_ERROR(impl->runtime.Load());
  return std::unique_ptr<OpenVinoBackend>(new OpenVinoBackend(std::move(impl)));
}

OpenVinoBackend::OpenVinoBackend(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
OpenVinoBackend::~OpenVinoBackend() = default;

Result<OpenVinoBackend::LoadedModel> OpenVinoBackend::Load(const OvmsModelConfig& config, int64_t version,
                                                           const std::string& version_path) {
  return GuardedResult<LoadedModel>([&]() -> Result<LoadedModel> {
    LoadedModel loaded;
    BRAID_ASSIGN_OR_RETURN(loaded.model, LoadConfigModel(config, version, version_path, impl_->runtime,
                                                         impl_->log, loaded.info));
    return loaded;
  });
}

bool OpenVinoBackend::StandsInFor(std::string_view backend) const {
  const KnownBackend* known = FindKnownBackend(backend);
  return known != nullptr && known->runner == name();
}

std::string OpenVinoBackend::DefaultFile(const inference::ModelConfig& config,
                                         const std::string& version_path) const {
  return DefaultTritonFile(config, version_path);
}

GpuPlacement OpenVinoBackend::Gpus(const inference::ModelConfig& config) {
  // Models without a GPU setting stay on their device, since other devices compute other numbers.
  GpuPlacement placement{.automatic = false, .cpu_stands_in = impl_->cpu_stands_in};
  const auto wants = [](const auto& group) {
    return group.kind() == inference::ModelInstanceGroup::KIND_GPU;
  };
  if (!std::any_of(config.instance_group().begin(), config.instance_group().end(), wants)) return placement;
  auto devices = impl_->runtime.Devices();
  if (!devices.ok()) {
    placement.why_none = ": " + devices.status().message();
    return placement;
  }
  std::string names;
  for (const std::string& device : *devices) {
    names += (names.empty() ? "" : ", ") + device;
    // "GPU" where there is one, "GPU.0" and so on where there are more.
    if (device == "GPU" || device.starts_with("GPU."))
      placement.gpus.push_back(static_cast<int>(placement.gpus.size()));
  }
  if (placement.gpus.empty()) placement.why_none = " to OpenVINO, which finds these devices: " + names;
  return placement;
}

Status OpenVinoBackend::AutoComplete(const ModelLocation& location, inference::ModelConfig& config) {
  Status status;
  BRAID_RETURN_IF_ERROR(
      Guarded([&] { status = AutoCompleteTritonModel(location, impl_->runtime, config); }, Unexpected));
  return status;
}

Result<std::unique_ptr<BackendModel>> OpenVinoBackend::Create(
    const ModelLocation& location, std::shared_ptr<const inference::ModelConfig> config) {
  return GuardedResult<std::unique_ptr<BackendModel>>(
      [&] { return CreateTritonModel(location, *config, impl_->runtime, impl_->log); });
}

}  // namespace braid
