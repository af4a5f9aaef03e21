#include "backends/native/openvino_isolation.h"

#include <utility>

#include "backends/python/auto_complete.h"
#include "config/isolated_parts.h"
#include "config/model_config.h"

namespace braid {

Result<std::unique_ptr<OpenVinoIsolation>> OpenVinoIsolation::Create(Options options, Logger& log) {
  BRAID_CHECK(options.services != nullptr);
  OpenVinoBackend::Options inside = options.openvino;
  inside.check_extension = !options.isolate;
  std::unique_ptr<OpenVinoIsolation> made(new OpenVinoIsolation(std::move(options), log));
  BRAID_ASSIGN_OR_RETURN(made->inside_, OpenVinoBackend::Create(std::move(inside), log));
  if (made->options_.isolate && !made->options_.openvino.cpu_extension.empty()) {
    BRAID_ASSIGN_OR_RETURN(const NativeAnswer answer,
                           made->Do("cpu_extension", made->Task(NativeTask::Kind::kExtension)));
    BRAID_RETURN_IF_ERROR(answer.status);
  }
  return made;
}

OpenVinoIsolation::~OpenVinoIsolation() = default;

Result<WorkerSpawner*> OpenVinoIsolation::Spawner() {
  MutexLock lock(mutex_);
  if (spawner_) return spawner_.get();
  BRAID_ASSIGN_OR_RETURN(support_, options_.support());
  WorkerSpawner::Options spawner;
  spawner.program = options_.program;
  spawner.start = WorkerStart::kFresh;
  spawner.limits = options_.worker_limits;
  spawner.segments = options_.worker_segments;
  spawner.timeout_ns = options_.sign_in_timeout_ns;
  spawner.verbose_errors = options_.services->catalog->error_texts().verbose();
  spawner_ = std::make_unique<WorkerSpawner>(std::move(spawner), *support_->reaper, *support_->pump, log_);
  return spawner_.get();
}

NativeTask OpenVinoIsolation::Task(NativeTask::Kind kind) const {
  NativeTask task;
  task.kind = kind;
  task.cache_directory = options_.openvino.cache_directory;
  task.cpu_extension = options_.openvino.cpu_extension;
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

Result<NativeAnswer> OpenVinoIsolation::Do(const std::string& name, const NativeTask& task) {
  BRAID_ASSIGN_OR_RETURN(WorkerSpawner * spawner, Spawner());
  PythonModelFacts facts;
  facts.model_name = name;
  facts.model_config_json = EncodeTask(task);
  ChildReaper* reaper = nullptr;
  {
    MutexLock lock(mutex_);
    reaper = support_->reaper.get();
  }
  BRAID_ASSIGN_OR_RETURN(
      const std::string answer,
      AutoCompleteConfig(facts, *spawner, *reaper, log_, options_.sign_in_timeout_ns, 0, nullptr));
  return DecodeAnswer(answer);
}

Result<std::unique_ptr<NativeModel>> OpenVinoIsolation::MakeModel(const std::string& name,
                                                                  const NativeTask& task,
                                                                  std::shared_ptr<const void> files) {
  BRAID_ASSIGN_OR_RETURN(WorkerSpawner * spawner, Spawner());
  std::shared_ptr<WorkerSupport> support;
  {
    MutexLock lock(mutex_);
    support = support_;
  }
  const NativeModel::Ground ground{*spawner, *support->reaper, support->segment_ids,       *options_.services,
                                   log_,     options_.arena,   options_.sign_in_timeout_ns};
  return std::make_unique<NativeModel>(name, task, ground, std::move(files));
}

Status OpenVinoIsolation::AutoComplete(const ModelLocation& location, inference::ModelConfig& config) {
  BRAID_ASSIGN_OR_RETURN(const bool isolate, IsIsolated(config, options_.isolate));
  if (!isolate) return inside_->AutoComplete(location, config);
  BRAID_ASSIGN_OR_RETURN(NativeAnswer answer,
                         Do(config.name(), TritonTask(NativeTask::Kind::kTritonConfig, location, config)));
  BRAID_RETURN_IF_ERROR(answer.status);
  config = std::move(answer.config);
  return OkStatus();
}

Result<std::unique_ptr<BackendModel>> OpenVinoIsolation::Create(
    const ModelLocation& location, std::shared_ptr<const inference::ModelConfig> config) {
  BRAID_ASSIGN_OR_RETURN(const bool isolate, IsIsolated(*config, options_.isolate));
  if (!isolate) return inside_->Create(location, std::move(config));
  BRAID_ASSIGN_OR_RETURN(
      auto model, MakeModel(config->name(), TritonTask(NativeTask::Kind::kTritonModel, location, *config),
                            location.temporary_files));
  BRAID_RETURN_IF_ERROR(model->Load().status());
  std::vector<NativeModel::InstanceName> names;
  for (const InstanceSpec& instance : ListInstances(*config))
    names.push_back({instance.name, instance.passive});
  model->AddInstances(names);
  return std::unique_ptr<BackendModel>(std::move(model));
}

Result<OpenVinoBackend::LoadedModel> OpenVinoIsolation::Load(const OvmsModelConfig& config, int64_t version,
                                                             const std::string& version_path) {
  if (!config.isolate.value_or(options_.isolate)) return inside_->Load(config, version, version_path);
  NativeTask task = Task(NativeTask::Kind::kConfigModel);
  task.ovms_config = config;
  task.version_path = version_path;
  task.version = version;
  BRAID_ASSIGN_OR_RETURN(auto model, MakeModel(config.name, task, nullptr));
  BRAID_ASSIGN_OR_RETURN(NativeAnswer answer, model->Load());
  OpenVinoBackend::LoadedModel loaded;
  loaded.info = std::move(answer.info);
  loaded.info.dialect = Dialect::kOvms;
  std::vector<NativeModel::InstanceName> names;
  for (const InstanceSpec& instance : ListInstances(*loaded.info.config))
    names.push_back({instance.name, instance.passive});
  if (names.size() != static_cast<size_t>(loaded.info.instance_count))
    return InternalError("the native worker of model '" + config.name + "' counts its instances wrongly");
  model->AddInstances(names);
  loaded.model = std::move(model);
  return loaded;
}

}  // namespace braid
