#include "server/loading.h"

#include <sys/resource.h>

#include <algorithm>
#include <filesystem>
#include <utility>

#include <spdlog/fmt/fmt.h>

#include "backends/native/isolated_nodes.h"
#include "backends/native/native_worker.h"
#include "base/clock.h"
#include "base/program_files.h"
#include "isolation/start_program.h"
#include "protocols/metrics/ovms_collectors.h"
#include "repository/drains.h"
#include "sequences/redis_state_store.h"
#include "sequences/redis_url.h"
#include "sequences/scheduled_model.h"
#include "server/latency_options.h"
#include "server/memory_size.h"
#include "server/options_python.h"
#include "server/part_options.h"
#include "server/worker_directory.h"

namespace braid {
namespace {

// Bounds segments to a quarter of the descriptors, so that clients have enough.
void BoundSegments(SegmentBudget::Limits& limits) {
  if (rlimit files{}; getrlimit(RLIMIT_NOFILE, &files) == 0)
    limits.segments = std::min<size_t>(limits.segments, std::max<size_t>(files.rlim_cur / 4, 1));
  if (limits.bytes == 0) limits.bytes = MemorySize();
}

}  // namespace

Loading::Loading(const ServerOptions& options, Logger& log, ClientLimits& limits, Observability& seen)
    : options_(options),
      log_(log),
      catalog_(options.folders.model_repositories.empty() ? Dialect::kOvms : Dialect::kTriton,
               RootsOfErrors(options), options.verbose_errors),
      timers_watched_(seen.thread_watch.WatchTasks("brd-sched", [this](std::function<void()> task) {
        timers_.At(timers_.NowNs(), std::move(task));
        return true;
      })) {
  worker_services_.catalog = &catalog_;
  worker_services_.shared_arrays = &shared_arrays_;
  worker_services_.custom_metrics = &seen.custom_metrics;
  worker_services_.thread_watch = &seen.thread_watch;
  worker_services_.worker_counters = &seen.worker_counters;
  const uint64_t queued = options.model_max_queued_bytes;
  const uint64_t most = queued == 0 ? limits.budget.most() / 2 : queued;
  input_limit_.most = static_cast<int64_t>(std::min<uint64_t>(most, INT64_MAX));
  input_limit_.on_refusal = [&limits](std::string_view text) {
    limits.refusals.Count(Limit::kModelBytes, text);
  };
}

Status Loading::Prepare() {
  for (const std::string& note : gpus_.notes) BRAID_LOG_WARNING(log_, "{}", note);
  BRAID_RETURN_IF_ERROR(CheckIsolation(options_.workers.isolation));
  if (options_.rate_limit == RateLimitMode::kExecutionCount) {
    limiter_ = std::make_unique<RateLimiter>(options_.rate_limit_resources, timers_);
  }
  BRAID_RETURN_IF_ERROR(MakeOpenVino());
  if (!options_.sequence_store.url.empty()) BRAID_RETURN_IF_ERROR(OpenSequenceStore());
  if (state_store_ || !options_.sequence_state_path.empty()) BRAID_RETURN_IF_ERROR(OpenSequenceVault());
  return MakeManager();
}

Status Loading::Stop(int64_t deadline_ns) {
  // The save comes after the deadline, so that it includes models stopped by force.
  const int64_t save_deadline = deadline_ns + Drains::kStopGraceNs / 2;
  if (sequence_vault_) sequence_vault_->BeginShutdown(save_deadline);
  storage_.BeginShutdown();
  Status stopped = manager_->Shutdown(deadline_ns);
  if (sequence_vault_) {
    if (Status saved = sequence_vault_->Shutdown(save_deadline); !saved.ok()) return saved;
  }
  return stopped;
}

Makers::Steps Loading::MakerSteps() {
  return {.make_model =
              [this](ServableInfo info, std::unique_ptr<BackendModel> model,
                     const std::function<void(const std::string&)>& progress) {
                return CreateModel(std::move(info), std::move(model), progress);
              },
          .load_model = [this](const OvmsModelConfig& entry, int64_t version,
                               const std::string& path) { return openvino_->Load(entry, version, path); },
          .open_library = [this](const OvmsCustomNodeLibrary& library) { return OpenLibrary(library); },
          .start_nodes = [this](const std::string& graph,
                                std::vector<PythonNodeSpec> nodes) -> Result<std::unique_ptr<PythonNodes>> {
            BRAID_ASSIGN_OR_RETURN(PythonBackend * python, Python());
            return python->StartNodes(graph, std::move(nodes));
          },
          .configure = [this](Servable& servable) -> Status {
            BRAID_ASSIGN_OR_RETURN(const LatencyOptions latency, LatencyOf(servable.info()));
            Configure(servable, latency);
            return OkStatus();
          }};
}

// Returns the support shared by all workers; creates it at the first call. Any thread.
Result<std::shared_ptr<WorkerSupport>> Loading::Support() {
  MutexLock lock(support_mutex_);
  if (support_ == nullptr) {
    BRAID_ASSIGN_OR_RETURN(support_, WorkerSupport::Create(log_));
  }
  return support_;
}

ObjectStorage::Options Loading::StorageOptions() {
  ObjectStorage::Options options;
  options.cache_directory = options_.model_cache_directory.empty() ? options_.environment.temporary_directory
                                                                   : options_.model_cache_directory;
  options.cache_option = "--model-cache-directory";
  options.timeout_ns = options_.storage_timeout_secs * kSecondNs;
  options.timeout_option = "--storage-timeout-secs";
  options.variables = OwnVariables();
  options.support = [this] { return Support(); };
  options.on_cache = [this](const std::string& folder) { catalog_.error_texts().AddRoot(folder); };
  return options;
}

NativeWorkers::Options Loading::NativeWorkerOptions() {
  native_services_.catalog = &catalog_;
  NativeWorkers::Options options;
  options.program = {kThisProgram, kNativeWorkerCommand};
  options.limits = options_.workers.worker_limits;
  options.segments = options_.workers.worker_segments;
  BoundSegments(options.segments);
  options.isolation = options_.workers.isolation;
  options.user_ids = user_ids_;
  options.temporary_directory = options_.environment.temporary_directory;
  options.sign_in_timeout_ns = options_.workers.stub_timeout_seconds * kSecondNs;
  options.arena.keep_bytes = options_.workers.memory_keep_bytes;
  options.arena.max_bytes = options_.workers.memory_max_bytes;
  options.arena.max_bytes_option = "--memory-max-bytes";
  options.outage_wait_ns = options_.outage_wait_ms * 1'000'000;
  options.services = &native_services_;
  options.support = [this] { return Support(); };
  return options;
}

ImageDecoder::Options Loading::ImageOptions() {
  ImageDecoder::Options options;
  options.most_pixels = options_.image_max_pixels;
  if (options_.isolate.images)
    options.codec = isolated_images_ =
        std::make_shared<IsolatedImageCodec>(native_workers_, "", options.most_threads);
  return options;
}

std::vector<InstanceReport> Loading::OwnWorkers() const {
  std::vector<InstanceReport> reports;
  if (isolated_images_) {
    if (auto report = isolated_images_->report()) reports.push_back(*std::move(report));
  }
  for (const auto& library : isolated_calculators_) reports.push_back(library->report());
  return reports;
}

Status Loading::MakeOpenVino() {
  OpenVinoIsolation::Options options;
  options.openvino.cache_directory = options_.cache_dir;
  options.openvino.cpu_extension = options_.cpu_extension;
  options.openvino.smaller_types = options_.smaller_types;
  options.openvino.cpu_stands_in = options_.gpu_fallback == GpuFallback::kCpu;
  options.isolate = options_.isolate.openvino;
  options.workers = &native_workers_;
  BRAID_ASSIGN_OR_RETURN(openvino_, OpenVinoIsolation::Create(std::move(options), log_));
  return OkStatus();
}

Result<std::shared_ptr<const CustomNodeLibrary>> Loading::OpenLibrary(const OvmsCustomNodeLibrary& library) {
  if (!library.isolate.value_or(options_.isolate.custom_nodes))
    return CustomNodeLibrary::Open(library.name, library.base_path);
  return OpenIsolatedLibrary(native_workers_, library.name, library.base_path,
                             CustomNodeThreads::kMostThreads);
}

// Checks --model-load-gpu-limit. Any thread.
Status Loading::CheckLoad(const std::string& model, int gpu) {
  const auto limit = options_.model_load_gpu_limit.find(gpu);
  if (limit == options_.model_load_gpu_limit.end()) return OkStatus();
  const auto device = std::ranges::find(gpus_.devices, gpu, &GpuDevice::id);
  const std::string who = fmt::format("model '{}' is not loaded on GPU {}: ", model, gpu);
  auto memory = nvml_.Memory(device->uuid);
  if (!memory.ok()) return memory.status().WithPrefix(who + "cannot check --model-load-gpu-limit: ");
  const double used = static_cast<double>(memory->used_bytes) / static_cast<double>(memory->total_bytes);
  if (used <= limit->second) return OkStatus();
  return UnavailableError(
      who + fmt::format("{:.1f}% of its memory is in use, and --model-load-gpu-limit allows {:.1f}%",
                        100 * used, 100 * limit->second));
}

Result<IsolatedCalculators> Loading::OpenCalculators(const std::string& path) {
  NativeTask task;
  task.kind = NativeTask::Kind::kCalculators;
  task.library_path = std::filesystem::absolute(path).string();
  task.library_name = std::filesystem::path(path).stem().string();
  task.most_calls = Makers::kMostCalculators;
  BRAID_ASSIGN_OR_RETURN(std::shared_ptr<NativeFunction> function,
                         NativeFunction::Load(native_workers_, task.library_name, task));
  isolated_calculators_.push_back(function);
  return IsolatedCalculators{function->answer().calculators, [function](std::vector<Tensor> inputs) {
                               return function->Call(std::move(inputs));
                             }};
}

// Returns the backend for Python models and graph nodes. Created at the first use, so that other servers need
// no interpreter. Any thread.
Result<PythonBackend*> Loading::Python() {
  MutexLock lock(python_mutex_);
  if (python_) return python_.get();
  BRAID_ASSIGN_OR_RETURN(PythonChoice python, ResolvePython(options_));
  PythonBackend::Options workers = options_.workers;
  workers.python = python.path;
  BRAID_ASSIGN_OR_RETURN(workers.program, FindProgram());
  BRAID_ASSIGN_OR_RETURN(workers.worker_directory, FindWorkerDirectory());
  BoundSegments(workers.worker_segments);
  workers.temporary_directory = options_.environment.temporary_directory;
  workers.services = &worker_services_;
  workers.gpus = PlacementOf(gpus_.devices, options_);
  workers.check_gpu = [this](const std::string& model, int gpu) { return CheckLoad(model, gpu); };
  BRAID_ASSIGN_OR_RETURN(workers.support, Support());
  workers.user_ids = user_ids_;
  workers.storage = &storage_;
  workers.keep_sequences = sequence_vault_ != nullptr;
  BRAID_ASSIGN_OR_RETURN(python_, PythonBackend::Create(std::move(workers), log_));
  return python_.get();
}

Status Loading::OpenSequenceStore() {
  const SequenceStoreOptions& wanted = options_.sequence_store;
  RedisStateStore::Options store;
  BRAID_ASSIGN_OR_RETURN(store.client.url, ParseRedisUrl(wanted.url));
  store.client.password_file = wanted.password_file;
  store.client.ca_file = wanted.ca_file;
  store.client.cert_file = wanted.cert_file;
  store.client.key_file = wanted.key_file;
  store.client.connect_timeout_ns = wanted.connect_timeout_ms * kMillisecondNs;
  store.client.command_timeout_ns = wanted.timeout_ms * kMillisecondNs;
  store.policy = {wanted.mode, wanted.unavailable, wanted.lag_ms * kMillisecondNs};
  store.ttl_ms = wanted.ttl_seconds * 1000;
  BRAID_ASSIGN_OR_RETURN(state_store_, RedisStateStore::Open(std::move(store), log_));
  return OkStatus();
}

Status Loading::OpenSequenceVault() {
  SequenceVault::Options vault;
  vault.path = options_.sequence_state_path;
  vault.store = state_store_.get();
  vault.interval_ns = state_store_ ? 0 : options_.sequence_state_interval_seconds * kSecondNs;
  vault.hold_ns = options_.exit_timeout_secs * kSecondNs;
  BRAID_ASSIGN_OR_RETURN(sequence_vault_, SequenceVault::Open(vault, log_));
  return OkStatus();
}

Status Loading::MakeManager() {
  BRAID_ASSIGN_OR_RETURN(ManagerOptions options, MakeManagerOptions(options_));
  options.sequence_vault = sequence_vault_.get();
  options.storage = &storage_;
  std::vector<Backend*> backends;
  if (options.folders) {
    BRAID_ASSIGN_OR_RETURN(PythonBackend * python, Python());
    backends = {python, openvino_.get()};
  }
  if (options.config) {
    OpenIsolatedCalculators open;
    if (options_.isolate.calculators)
      open = [this](const std::string& path) { return OpenCalculators(path); };
    BRAID_RETURN_IF_ERROR(makers_.OpenCalculators(open));
  }
  const bool has_folders = options.folders.has_value();
  manager_ = std::make_unique<Manager>(std::move(options), catalog_, makers_.ForFolders(std::move(backends)),
                                       makers_.ForConfig(), log_);
  if (has_folders) {
    model_asks_ = std::make_unique<ModelAsks>(catalog_, *manager_);
    model_asks_->AddTo(worker_services_);
  }
  return OkStatus();
}

std::optional<OvmsMetricsConfig> Loading::OvmsMetricsWanted() const {
  if (options_.metrics_enable) return OvmsMetricsConfig{true, options_.metrics_list};
  std::optional<OvmsMetricsConfig> metrics = manager_->metrics();
  return metrics && metrics->enable ? metrics : std::nullopt;
}

Result<LatencyOptions> Loading::LatencyOf(const ServableInfo& info) const {
  BRAID_ASSIGN_OR_RETURN(LatencyOptions latency, LatencyOptionsFor(info, options_, log_));
  if (info.dialect == Dialect::kOvms && OvmsMetricsWanted()) {
    latency.ovms_bounds_us = OvmsLatencyOptions().ovms_bounds_us;
  }
  return latency;
}

Result<std::shared_ptr<Servable>> Loading::CreateModel(
    ServableInfo info, std::unique_ptr<BackendModel> model,
    const std::function<void(const std::string&)>& progress) {
  BRAID_ASSIGN_OR_RETURN(const LatencyOptions latency, LatencyOf(info));
  InstancePool::Options scheduling;
  scheduling.outage_wait_ns = options_.outage_wait_ms * 1'000'000;
  scheduling.call_graph = &call_graph_;
  scheduling.images = &images_;
  scheduling.limiter = limiter_.get();
  scheduling.cache = cache_.get();
  scheduling.state_store = state_store_.get();
  BRAID_ASSIGN_OR_RETURN(auto servable,
                         StartModel(std::move(info), std::move(model), timers_, log_, progress, scheduling));
  Configure(*servable, latency);
  return std::shared_ptr<Servable>(std::move(servable));
}

void Loading::Configure(Servable& servable, const LatencyOptions& latency) const {
  servable.statistics().Configure(latency);
  servable.set_input_limit(&input_limit_);
  const ServableInfo& info = servable.info();
  if (cache_ != nullptr || info.config == nullptr || !info.config->response_cache().enable()) return;
  BRAID_LOG_WARNING(log_,
                    "model '{}' enables the response cache, but the server has none; start it with "
                    "--cache-config=local,size=BYTES",
                    info.name);
}

}  // namespace braid
