#include "repository/version_loader.h"

#include <algorithm>
#include <filesystem>
#include <system_error>

#include "base/clock.h"
#include "config/model_config.h"
#include "config/model_name.h"
#include "config/servable_info.h"
#include "config/supported_features.h"
#include "repository/model_identity.h"

namespace braid {
namespace {

// A backend's name is used as a folder's name.
bool IsPlainName(std::string_view name) {
  return IsPlainRelativePath(name) && name.find('/') == std::string_view::npos && !name.starts_with('.');
}

}  // namespace

Result<Backend*> VersionLoader::FindBackend(const inference::ModelConfig& config,
                                            ModelLocation& location) const {
  const std::string& name = config.backend();
  auto find = [this](std::string_view wanted) {
    const auto& all = makers_.backends;
    auto it =
        std::find_if(all.begin(), all.end(), [&](Backend* backend) { return backend->name() == wanted; });
    return it == all.end() ? nullptr : *it;
  };
  const auto settle = [&](Backend* backend) {
    const std::string& file = config.default_model_filename();
    location.model_file = location.version_path + "/" +
                          (file.empty() ? backend->DefaultFile(config, location.version_path) : file);
    return backend;
  };
  if (Backend* backend = find(name)) return settle(backend);
  for (Backend* backend : makers_.backends) {
    location.model_file =
        IsPlainName(name) ? backend->HostedFile(name, options_.folders->backend_directory) : "";
    if (!location.model_file.empty()) return backend;
  }
  for (Backend* backend : makers_.backends) {
    if (backend->StandsInFor(name)) return settle(backend);
  }
  return InvalidArgumentError("unable to find backend library for backend '" + name +
                              "', try specifying runtime on the model configuration.");
}

// An ensemble has no process to start and no code to ask; only its models are checked.
Result<std::shared_ptr<Servable>> VersionLoader::LoadEnsemble(const ModelSource& source,
                                                              int64_t version) const {
  auto config = std::make_shared<inference::ModelConfig>(source.config);
  NormalizeConfig(*config);
  BRAID_RETURN_IF_ERROR(ValidateConfig(*config));
  BRAID_ASSIGN_OR_RETURN(ServableInfo info, MakeServableInfo(config, version, source.folder));
  return makers_.make_ensemble(std::move(info), why_missing_);
}

Result<std::shared_ptr<Servable>> VersionLoader::Load(
    const ModelSource& source, int64_t version,
    const std::function<void(const std::string&)>& progress) const {
  const int64_t start_ns = SteadyNowNs();
  BRAID_ASSIGN_OR_RETURN(auto servable, Make(source, version, progress));
  servable->statistics().RecordLoad(SteadyNowNs() - start_ns);
  return servable;
}

Result<std::shared_ptr<Servable>> VersionLoader::Make(
    const ModelSource& source, int64_t version,
    const std::function<void(const std::string&)>& progress) const {
  auto config = std::make_shared<inference::ModelConfig>(source.config);
  BRAID_RETURN_IF_ERROR(CheckLoadableName(config->name()));
  ModelLocation location;
  location.version = version;
  location.model_path = source.folder.path();
  location.version_path = location.model_path + "/" + std::to_string(version);
  location.temporary_files = source.temporary_files;
  const bool is_ensemble = IsEnsemble(*config);
  Result<Backend*> found = is_ensemble ? Result<Backend*>(nullptr) : FindBackend(*config, location);
  // Check before user code runs, and again after it has completed the configuration. An invalid configuration
  // is reported first.
  if (Status supported = CheckSupportedFeatures(*config); !supported.ok()) {
    const GpuPlacement placement = found.ok() && *found != nullptr ? (*found)->Gpus(*config) : GpuPlacement();
    NormalizeConfig(*config, placement);
    BRAID_RETURN_IF_ERROR(ValidateConfig(*config, placement));
    return supported;
  }
  if (is_ensemble) return LoadEnsemble(source, version);
  BRAID_ASSIGN_OR_RETURN(Backend * backend, std::move(found));
  BRAID_RETURN_IF_ERROR(ValidateModelFile(*config));
  BRAID_RETURN_IF_ERROR(backend->Prepare(*config, location, progress));
  if (options_.folders->auto_complete) {
    BRAID_RETURN_IF_ERROR(backend->AutoComplete(location, *config));
    // The model cannot change these fields.
    config->set_name(source.config.name());
    config->set_backend(source.config.backend());
    *config->mutable_version_policy() = source.config.version_policy();
  }
  const GpuPlacement placement = backend->Gpus(*config);
  for (const std::string& note : NormalizeConfig(*config, placement)) BRAID_LOG_WARNING(log_, "{}", note);
  BRAID_RETURN_IF_ERROR(ValidateConfig(*config, placement));
  BRAID_RETURN_IF_ERROR(CheckSupportedFeatures(*config));
  BRAID_ASSIGN_OR_RETURN(ServableInfo info, MakeServableInfo(config, version, source.folder));
  info.makes_calls = backend->RunsUserCode();
  info.openai.renders_chats = info.openai.renders_chats && info.makes_calls;
  // User code decides at run time which states it gives to be kept.
  const bool may_keep = !info.initial_states.empty() || (info.makes_calls && config->has_sequence_batching());
  if (options_.sequence_vault != nullptr && may_keep) {
    const std::string who = "'" + config->name() + "' version " + std::to_string(version);
    info.sequence_identity = IdentityOfModel(location.version_path, DescribeStates(*config), who, log_);
  }
  BRAID_ASSIGN_OR_RETURN(auto model, backend->Create(location, config));
  // Tensors that the server caches or keeps as states must be in host memory.
  if (!config->response_cache().enable()) {
    info.device_inputs = model->device_tensors().inputs;
    info.device_outputs = model->device_tensors().outputs && info.initial_states.empty();
  }
  BRAID_ASSIGN_OR_RETURN(auto made, makers_.make_model(std::move(info), std::move(model), progress));
  made->KeepFiles(source.copy);
  return made;
}

void VersionLoader::BeginShutdown() const {
  for (Backend* backend : makers_.backends) backend->BeginShutdown();
}

}  // namespace braid
