#include "backends/python/python_backend.h"

#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <set>
#include <utility>

#include <spdlog/fmt/fmt.h>

#include "backends/python/node_worker.h"
#include "backends/python/python_model.h"
#include "config/config_json.h"
#include "config/model_config.h"
#include "isolation/worker_surroundings.h"
#include "workers/auto_complete.h"

namespace braid {
namespace {

// In Triton such a file is the model's own interpreter.
void WarnOfStub(const std::string& model, const std::string& model_path, Logger& log) {
  const std::string stub = model_path + "/triton_python_backend_stub";
  if (access(stub.c_str(), F_OK) != 0) return;
  BRAID_LOG_WARNING(log,
                    "model '{}': '{}' is not used: models run without a stub; set parameter "
                    "EXECUTION_ENV_PATH to an environment",
                    model, stub);
}

PythonEnvironment& EnvironmentOf(const ModelLocation& location) {
  return static_cast<PythonEnvironment&>(*location.preparation);
}

// Whether an instance is or could be on a GPU; also works before defaults are filled in.
bool MayUseGpu(const inference::ModelConfig& config) {
  const auto& groups = config.instance_group();
  return groups.empty() || std::any_of(groups.begin(), groups.end(), [](const auto& group) {
           return group.kind() != inference::ModelInstanceGroup::KIND_CPU;
         });
}

std::string FolderOf(const std::string& file) { return std::filesystem::path(file).parent_path().string(); }

// Levels with access to all files need no list.
void AddFolder(const std::string& folder, WorkerIsolation& isolation) {
  if (isolation.level < IsolationLevel::kStrict) return;
  const std::vector<LandlockPath> paths = FolderPaths(folder);
  isolation.files.insert(isolation.files.end(), paths.begin(), paths.end());
}

WorkerFacts Facts(const ModelLocation& location, const inference::ModelConfig& config,
                  uint64_t arena_keep_bytes, WorkerIsolation isolation) {
  WorkerFacts facts;
  facts.model_file = location.model_file;
  facts.module_name = PythonFiles::ModuleName(location);
  facts.model_path = location.model_path;
  facts.version_path = location.version_path;
  facts.model_config_json = ConfigToJson(config);
  facts.model_name = config.name();
  facts.model_version = std::to_string(location.version);
  facts.arena_keep_bytes = arena_keep_bytes;
  facts.isolation = std::move(isolation);
  return facts;
}

// Switches sharing off where it is optional and of no use. Errors: FAILED_PRECONDITION if it is required and
// not possible.
Status CheckSharing(const inference::ModelConfig& config, const std::vector<WorkerSpec>& instances,
                    const WorkerIsolation& isolation, const WorkerSpawner& spawner, ModelBounds& bounds) {
  if (bounds.share_instances == ShareInstances::kOff) return OkStatus();
  std::string why;
  if (spawner.StartOf(isolation) != WorkerStart::kFork)
    why = "it needs --worker-start=fork, and isolation none or basic";
  if (std::ranges::any_of(instances, [](const WorkerSpec& spec) { return spec.kind == "GPU"; }))
    why = "a process that uses a GPU cannot be forked";
  if (bounds.share_instances == ShareInstances::kOn && !why.empty()) {
    return FailedPreconditionError("instances of model '" + config.name() + "' cannot share memory: " + why);
  }
  if (!why.empty() || (bounds.share_instances == ShareInstances::kAuto && instances.size() < 2))
    bounds.share_instances = ShareInstances::kOff;
  return OkStatus();
}

}  // namespace

Result<std::unique_ptr<PythonBackend>> PythonBackend::Create(Options options, Logger& log) {
  BRAID_CHECK(options.services != nullptr);
  if (options.support == nullptr) {
    BRAID_ASSIGN_OR_RETURN(options.support, WorkerSupport::Create(log));
  }
  return std::unique_ptr<PythonBackend>(new PythonBackend(std::move(options), log));
}

PythonBackend::PythonBackend(Options options, Logger& log)
    : options_(std::move(options)),
      log_(log),
      user_ids_(options_.user_ids != nullptr ? options_.user_ids
                                             : std::make_shared<UserIds>(options_.isolation.first_user_id,
                                                                         options_.isolation.last_user_id)),
      default_environment_(std::make_shared<PythonEnvironment>(SpawnerOptions(), nullptr, *options_.support)),
      environments_(
          {.spawner = SpawnerOptions(),
           .temporary_directory = options_.temporary_directory,
           .unpack_program = options_.isolation.level == IsolationLevel::kNone ? "" : options_.program,
           .max_bytes = options_.environment_max_bytes,
           .max_bytes_option = "--environment-max-bytes",
           .storage = options_.storage},
          *options_.support) {}

PythonBackend::~PythonBackend() = default;

WorkerSpawner::Options PythonBackend::SpawnerOptions() const {
  WorkerSpawner::Options spawner;
  spawner.python = options_.python;
  spawner.worker_directory = options_.worker_directory;
  spawner.start = options_.worker_start;
  spawner.limits = options_.worker_limits;
  spawner.isolation = options_.isolation;
  spawner.user_ids = user_ids_;
  spawner.temporary_directory = options_.temporary_directory;
  spawner.segments = options_.worker_segments;
  spawner.timeout_ns = options_.stub_timeout_seconds * 1'000'000'000;
  spawner.verbose_errors = options_.services->catalog->error_texts().verbose();
  return spawner;
}

Status PythonBackend::Prepare(const inference::ModelConfig& config, ModelLocation& location,
                              const std::function<void(const std::string&)>& progress) {
  BRAID_RETURN_IF_ERROR(CheckFile(location));
  const std::string path = EnvironmentPath(config, location.model_path);
  if (path.empty()) {
    WarnOfStub(config.name(), location.model_path, log_);
    location.preparation = default_environment_;
    return OkStatus();
  }
  BRAID_ASSIGN_OR_RETURN(location.preparation, environments_.Get(path, progress));
  return OkStatus();
}

Status PythonBackend::AutoComplete(const ModelLocation& location, inference::ModelConfig& config) {
  ModelBounds bounds = options_.bounds;
  BRAID_RETURN_IF_ERROR(ReadBounds(config, bounds).status);
  BRAID_ASSIGN_OR_RETURN(WorkerIsolation isolation, Isolation(location, config));
  const WorkerFacts facts = Facts(location, config, 0, std::move(isolation));
  BRAID_ASSIGN_OR_RETURN(std::string json, AutoCompleteConfig(facts, EnvironmentOf(location).spawner(),
                                                              bounds.initialize_timeout_ns(),
                                                              options_.services->custom_metrics));
  if (json.empty()) return OkStatus();
  BRAID_ASSIGN_OR_RETURN(config, ConfigFromJson(json));
  return OkStatus();
}

Result<std::unique_ptr<BackendModel>> PythonBackend::Create(
    const ModelLocation& location, std::shared_ptr<const inference::ModelConfig> config) {
  ModelBounds bounds = options_.bounds;
  BRAID_RETURN_IF_ERROR(ReadBounds(*config, bounds).status);
  BRAID_ASSIGN_OR_RETURN(WorkerIsolation isolation, Isolation(location, *config));
  const std::string debugger = Debug(config->name(), bounds, isolation);
  BackendModel::DeviceTensors device_tensors;
  device_tensors.outputs = !options_.gpus.gpus.empty();
  std::vector<WorkerSpec> instances;
  std::set<int> gpus;
  for (const InstanceSpec& spec : ListInstances(*config)) {
    if (options_.check_gpu && spec.kind == "GPU" && gpus.insert(spec.device_id).second)
      BRAID_RETURN_IF_ERROR(options_.check_gpu(config->name(), spec.device_id));
    // Processes without a GPU need no access to devices.
    device_tensors.outputs = device_tensors.outputs && spec.kind != "CPU";
    instances.push_back({spec.name, spec.kind, spec.device_id, spec.passive});
  }
  if (!debugger.empty()) {
    // One process, since a debugger attaches to one; the first that takes requests.
    std::stable_partition(instances.begin(), instances.end(),
                          [](const WorkerSpec& spec) { return !spec.passive; });
    instances.resize(1);
  }
  const auto force_cpu = config->parameters().find("FORCE_CPU_ONLY_INPUT_TENSORS");
  device_tensors.inputs = device_tensors.outputs && force_cpu != config->parameters().end() &&
                          force_cpu->second.string_value() == "no";
  BRAID_RETURN_IF_ERROR(
      CheckSharing(*config, instances, isolation, EnvironmentOf(location).spawner(), bounds));
  auto environment = std::static_pointer_cast<PythonEnvironment>(location.preparation);
  ModelLocation kept = location;
  kept.preparation.reset();  // the model releases its environment before its location
  WorkerFacts facts = Facts(location, *config, options_.memory_keep_bytes, std::move(isolation));
  facts.pinned_pool_bytes = options_.pinned_pool_bytes;
  facts.debugger = debugger;
  for (const auto& [gpu, bytes] : options_.cuda_pool_bytes) facts.device_pools.push_back({gpu, bytes});
  // A sequence of an iterative model is a single request.
  facts.keeps_sequences = options_.keep_sequences && config->has_sequence_batching() &&
                          !config->sequence_batching().iterative_sequence();
  return std::unique_ptr<BackendModel>(std::make_unique<PythonModel>(
      std::move(kept), std::move(facts), instances, ArenaOptions(), *options_.services,
      std::move(environment), memory_limits_, bounds, device_tensors));
}

Result<WorkerIsolation> PythonBackend::Isolation(const ModelLocation& location,
                                                 const inference::ModelConfig& config) const {
  const auto asked = config.parameters().find("WORKER_ISOLATION");
  BRAID_ASSIGN_OR_RETURN(
      WorkerIsolation isolation,
      IsolationOf(options_.isolation, config.name(),
                  asked == config.parameters().end() ? std::string() : asked->second.string_value()));
  AddFolder(location.model_path, isolation);
  AddFolder(FolderOf(location.model_file), isolation);
  isolation.gpus = MayUseGpu(config);
  return isolation;
}

std::string PythonBackend::Debug(const std::string& model, ModelBounds& bounds,
                                 WorkerIsolation& isolation) const {
  const Options::Debugging& debugging = options_.debugging;
  if (model != debugging.model) return "";
  bounds = {};
  isolation.level = IsolationLevel::kNone;
  BRAID_LOG_INFO(log_, "'{}' is debugged: one process, without time and memory limits, and without isolation",
                 model);
  return fmt::format("{}{}", debugging.port, debugging.wait ? " wait" : "");
}

Arena::Options PythonBackend::ArenaOptions() const {
  Arena::Options arena;
  arena.keep_bytes = options_.memory_keep_bytes;
  arena.max_bytes = options_.memory_max_bytes;
  arena.max_bytes_option = "--memory-max-bytes";
  return arena;
}

Result<std::unique_ptr<PythonNodes>> PythonBackend::StartNodes(const std::string& graph_name,
                                                               std::vector<PythonNodeSpec> nodes) {
  BRAID_ASSIGN_OR_RETURN(WorkerIsolation isolation, IsolationOf(options_.isolation, graph_name, ""));
  isolation.gpus = true;  // the configuration of nodes names no devices
  for (const PythonNodeSpec& node : nodes) AddFolder(FolderOf(node.handler_path), isolation);
  ModelBounds bounds = options_.bounds;
  std::string debugger = Debug(graph_name, bounds, isolation);
  auto worker =
      std::make_unique<NodeWorker>(graph_name, nodes, std::move(isolation), std::move(debugger),
                                   ArenaOptions(), *options_.services, default_environment_, bounds);
  BRAID_RETURN_IF_ERROR(worker->Start());
  return std::unique_ptr<PythonNodes>(std::move(worker));
}

}  // namespace braid
