#include "backends/native/openvino_isolation.h"

#include <utility>

#include "base/check.h"
#include "config/isolated_parts.h"
#include "config/model_config.h"
#include "serving/faults.h"

namespace braid {

Result<std::unique_ptr<OpenVinoIsolation>> OpenVinoIsolation::Create(Options options, Logger& log) {
  BRAID_CHECK(options.workers != nullptr);
  OpenVinoBackend::Options inside = options.openvino;
  inside.check_extension = !options.isolate;
  inside.contain_crashes = true;
  std::unique_ptr<OpenVinoIsolation> made(new OpenVinoIsolation(std::move(options), log));
  BRAID_ASSIGN_OR_RETURN(made->inside_, OpenVinoBackend::Create(std::move(inside), log));
  if (made->options_.isolate && !made->options_.openvino.cpu_extension.empty()) {
    BRAID_RETURN_IF_ERROR(
        made->options_.workers->Do("cpu_extension", made->Task(NativeTask::Kind::kExtension)).status());
  }
  return made;
}

OpenVinoIsolation::~OpenVinoIsolation() = default;

NativeTask OpenVinoIsolation::Task(NativeTask::Kind kind) const {
  NativeTask task;
  task.kind = kind;
  task.cache_directory = options_.openvino.cache_directory;
  task.cpu_extension = options_.openvino.cpu_extension;
  task.smaller_types = options_.openvino.smaller_types;
  return task;
}

NativeTask OpenVinoIsolation::TritonTask(NativeTask::Kind kind, const ModelLocation& location,
                                         const inference::ModelConfig& config) const {
  NativeTask task = Task(kind);
  task.triton_config = config;
  task.model_path = location.model_path;
  task.version_path = location.version_path;
  task.model_file = location.model_file;
  task.version = location.version;
  return task;
}

Result<bool> OpenVinoIsolation::RunsApart(const ModelLocation& location,
                                          const inference::ModelConfig& config) const {
  BRAID_ASSIGN_OR_RETURN(const bool wanted, IsIsolated(config, options_.isolate));
  // OpenVINO may crash while it reads a file. The operator may take that risk, but not a client.
  return wanted || location.temporary_files != nullptr;
}

Status OpenVinoIsolation::AutoComplete(const ModelLocation& location, inference::ModelConfig& config) {
  BRAID_ASSIGN_OR_RETURN(const bool apart, RunsApart(location, config));
  if (!apart) return inside_->AutoComplete(location, config);
  BRAID_ASSIGN_OR_RETURN(
      NativeAnswer answer,
      options_.workers->Do(config.name(), TritonTask(NativeTask::Kind::kTritonConfig, location, config)));
  config = std::move(answer.config);
  return OkStatus();
}

Result<std::unique_ptr<BackendModel>> OpenVinoIsolation::Create(
    const ModelLocation& location, std::shared_ptr<const inference::ModelConfig> config) {
  BRAID_ASSIGN_OR_RETURN(const bool apart, RunsApart(location, *config));
  if (!apart) {
    if (config->parameters().contains("WORKER_ISOLATION"))
      return InvalidArgumentError("model '" + config->name() +
                                  "': parameter 'WORKER_ISOLATION' needs an isolated model; set "
                                  "--isolate=openvino or parameter 'ISOLATE'");
    auto model = inside_->Create(location, config);
    if (!GoesApart(config->name(), model.status())) return model;
  }
  return CreateApart(location, *config);
}

bool OpenVinoIsolation::GoesApart(const std::string& model, const Status& status) {
  if (status.fault() != Fault::kNeedsProcess) return false;
  BRAID_LOG_INFO(log_, "model '{}' runs in a separate process: {}", model, status.message());
  return true;
}

Result<std::unique_ptr<BackendModel>> OpenVinoIsolation::CreateApart(const ModelLocation& location,
                                                                     const inference::ModelConfig& config) {
  BRAID_ASSIGN_OR_RETURN(
      auto model,
      options_.workers->MakeModel(config.name(), TritonTask(NativeTask::Kind::kTritonModel, location, config),
                                  location.temporary_files));
  BRAID_RETURN_IF_ERROR(model->Load().status());
  std::vector<NativeModel::InstanceName> names;
  for (const InstanceSpec& instance : ListInstances(config))
    names.push_back({instance.name, instance.passive});
  model->AddInstances(names);
  return std::unique_ptr<BackendModel>(std::move(model));
}

Result<OpenVinoBackend::LoadedModel> OpenVinoIsolation::Load(const OvmsModelConfig& config, int64_t version,
                                                             const std::string& version_path) {
  if (!config.isolate.value_or(options_.isolate)) {
    auto loaded = inside_->Load(config, version, version_path);
    if (!GoesApart(config.name, loaded.status())) return loaded;
  }
  return LoadApart(config, version, version_path);
}

Result<OpenVinoBackend::LoadedModel> OpenVinoIsolation::LoadApart(const OvmsModelConfig& config,
                                                                  int64_t version,
                                                                  const std::string& version_path) {
  NativeTask task = Task(NativeTask::Kind::kConfigModel);
  task.ovms_config = config;
  task.version_path = version_path;
  task.version = version;
  BRAID_ASSIGN_OR_RETURN(auto model, options_.workers->MakeModel(config.name, task, nullptr));
  BRAID_ASSIGN_OR_RETURN(NativeAnswer answer, model->Load());
  OpenVinoBackend::LoadedModel loaded;
  loaded.info = std::move(answer.info);
  loaded.info.dialect = Dialect::kOvms;
  std::vector<NativeModel::InstanceName> names;
  for (const InstanceSpec& instance : ListInstances(*loaded.info.config))
    names.push_back({instance.name, instance.passive});
  if (names.size() != static_cast<size_t>(loaded.info.instance_count))
    return InternalError("the native worker of model '" + config.name +
                         "' reported the wrong number of instances");
  model->AddInstances(names);
  loaded.model = std::move(model);
  return loaded;
}

}  // namespace braid
