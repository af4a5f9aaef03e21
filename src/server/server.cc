#include "server/server.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <thread>

#include <spdlog/fmt/fmt.h>

#include "backends/native/isolated_images.h"
#include "backends/native/isolated_nodes.h"
#include "backends/native/native_function.h"
#include "backends/native/native_worker.h"
#include "backends/native/openvino_isolation.h"
#include "backends/python/python_backend.h"
#include "base/clock.h"
#include "base/elastic_threads.h"
#include "base/file_watcher.h"
#include "base/guard.h"
#include "base/mutex.h"
#include "base/process_memory.h"
#include "base/thread_watch.h"
#include "config/config_json.h"
#include "gpu/devices.h"
#include "gpu/nvml.h"
#include "images/encoded_images.h"
#include "isolation/start_program.h"
#include "mediapipe_graph/calculator_library.h"
#include "mediapipe_graph/graph_servable.h"
#include "pipeline/custom_node_threads.h"
#include "pipeline/ensemble.h"
#include "protocols/access/access_policy.h"
#include "protocols/grpc/protobuf_log.h"
#include "protocols/grpc/server.h"
#include "protocols/http/server.h"
#include "protocols/inference/context.h"
#include "protocols/kserve/grpc/service.h"
#include "protocols/kserve/http/service.h"
#include "protocols/metrics/metrics_route.h"
#include "protocols/metrics/ovms_collectors.h"
#include "protocols/net/tls.h"
#include "protocols/tfs/tfs_routes.h"
#include "protocols/tfs/tfs_services.h"
#include "repository/drains.h"
#include "repository/manager.h"
#include "scheduling/call_graph.h"
#include "scheduling/timer_service.h"
#include "sequences/redis_state_store.h"
#include "sequences/redis_url.h"
#include "sequences/scheduled_model.h"
#include "sequences/sequence_cleaner.h"
#include "sequences/sequence_drain.h"
#include "sequences/sequence_vault.h"
#include "sequences/state_store.h"
#include "server/console.h"
#include "server/heap_trimmer.h"
#include "server/latency_options.h"
#include "server/memory_size.h"
#include "server/options_python.h"
#include "server/part_options.h"
#include "server/rest_description.h"
#include "server/server_control.h"
#include "server/worker_directory.h"
#include "serving/worker_counters.h"
#include "tracing/trace_manager.h"
#include "workers/model_asks.h"

namespace braid {
namespace {

// Of the exit timeout, what is kept for finalizing models after the requests in flight have had their time.
constexpr int64_t kProtocolGraceNs = 2 * kSecondNs;
// Of a port that has room when clients of models have taken all of theirs.
constexpr size_t kReservedConnections = 256;
// As many of users' calculators may block at once.
constexpr size_t kMostCalculators = 64;

// More segments than a quarter of the descriptors would leave too few for clients.
void BoundSegments(SegmentBudget::Limits& limits) {
  if (rlimit files{}; getrlimit(RLIMIT_NOFILE, &files) == 0)
    limits.segments = std::min<size_t>(limits.segments, std::max<size_t>(files.rlim_cur / 4, 1));
  if (limits.bytes == 0) limits.bytes = MemorySize();
}

// Where the first of the listed addresses is reached; the others go to the log.
std::string Endpoint(const std::string& addresses, int port, Logger& log) {
  const std::vector<std::string> listed = ListedAddresses(addresses);
  for (size_t i = 1; i < listed.size(); ++i) {
    BRAID_LOG_INFO(log, "port {} listens on {} too", port, listed[i]);
  }
  const std::string& address = listed.front();
  return (address.find(':') == std::string::npos ? address : "[" + address + "]") + ":" +
         std::to_string(port);
}

}  // namespace

// In the order in which the parts depend on one another; they go in the reverse order.
class Server::Parts {
 public:
  Parts(const ServerOptions& options, Logger& log, const RecentLog* recent_log)
      : options_(options),
        log_(log),
        recent_log_(recent_log),
        heap_trimmer_(options.workers.memory_keep_bytes) {}

  Status Start(Status& load_status) {
    for (const std::string& note : gpus_.notes) BRAID_LOG_WARNING(log_, "{}", note);
    BRAID_RETURN_IF_ERROR(CheckIsolation(options_.workers.isolation));
    worker_services_.catalog = &catalog_;
    worker_services_.custom_metrics = &custom_metrics_;
    worker_services_.thread_watch = &thread_watch_;
    worker_services_.worker_counters = &worker_counters_;
    if (options_.rate_limit == RateLimitMode::kExecutionCount) {
      limiter_ = std::make_unique<RateLimiter>(options_.rate_limit_resources, timers_);
    }
    BRAID_RETURN_IF_ERROR(MakeOpenVino());
    if (!options_.sequence_store.url.empty()) BRAID_RETURN_IF_ERROR(OpenSequenceStore());
    if (state_store_ || !options_.sequence_state_path.empty()) BRAID_RETURN_IF_ERROR(OpenSequenceVault());
    BRAID_RETURN_IF_ERROR(MakeManager());
    control_ = std::make_unique<ServerControl>(*manager_);
    BRAID_RETURN_IF_ERROR(Listen());
    if (Status started = StartManager(load_status); !started.ok()) {
      // What has been loaded ends as at any stop; what does not end by then has said so in the log.
      static_cast<void>(Stop());
      return started;
    }
    control_->EndStart();
    return OkStatus();
  }

  Status Stop() {
    GiveNotice();
    DrainSequences();
    const int64_t deadline = SteadyNowNs() + options_.exit_timeout_secs * kSecondNs;
    // New work is refused first; then the models end, which answers what is in flight; the protocols go last,
    // so that every answer still finds its client.
    control_->BeginExit();
    if (grpc_) grpc_->Drain();
    for (HttpServer* http : {http_.get(), metrics_.get(), admin_.get()}) {
      if (http != nullptr) http->Drain();
    }
    // What was stopped by force at the deadline is saved then.
    const int64_t save_deadline = deadline + Drains::kStopGraceNs / 2;
    if (sequence_vault_) sequence_vault_->BeginShutdown(save_deadline);
    Status stopped = manager_->Shutdown(deadline);
    if (sequence_vault_) {
      if (Status saved = sequence_vault_->Shutdown(save_deadline); !saved.ok()) stopped = std::move(saved);
    }
    const int64_t protocol_deadline = std::max(deadline, SteadyNowNs()) + kProtocolGraceNs;
    if (grpc_) grpc_->Shutdown(protocol_deadline);
    if (http_) http_->Shutdown(protocol_deadline);
    if (metrics_) metrics_->Shutdown(protocol_deadline);
    if (admin_) admin_->Shutdown(protocol_deadline);
    return stopped;
  }

  const ServerAddresses& addresses() const { return addresses_; }
  const Catalog& catalog() const { return catalog_; }
  const std::vector<GpuDevice>& gpus() const { return gpus_.devices; }
  std::string console_url() const { return console_ ? console_->Url(addresses_) : ""; }

 private:
  // A balancer hears a moment later that a server is not ready. Until then it sends what would be refused.
  void GiveNotice() {
    if (options_.exit_notice_secs == 0) return;
    BRAID_LOG_INFO(log_, "not ready any more; serving for {} s, so that balancers hear of it",
                   options_.exit_notice_secs);
    control_->BeginDrain();
    std::this_thread::sleep_for(std::chrono::seconds(options_.exit_notice_secs));
  }

  // A balancer sends nothing new to a server that is not ready; what it has begun may end.
  void DrainSequences() {
    const uint64_t live = LiveSequences(catalog_);
    if (options_.sequence_drain_seconds == 0 || live == 0) return;
    BRAID_LOG_INFO(log_, "sequences that have not ended: {}; serving them for at most {} s", live,
                   options_.sequence_drain_seconds);
    control_->BeginDrain();
    const uint64_t left =
        WaitForSequences(catalog_, SteadyNowNs() + options_.sequence_drain_seconds * kSecondNs);
    if (left > 0)
      BRAID_LOG_WARNING(log_, "sequences that have not ended: {}; they are waited for no longer", left);
  }

  // What workers share; made with the first. Any thread.
  Result<std::shared_ptr<WorkerSupport>> Support() {
    MutexLock lock(support_mutex_);
    if (support_ == nullptr) {
      BRAID_ASSIGN_OR_RETURN(support_, WorkerSupport::Create(log_));
    }
    return support_;
  }

  NativeWorkers::Options NativeWorkerOptions() {
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

  ImageDecoder::Options ImageOptions() {
    ImageDecoder::Options options;
    options.most_pixels = options_.image_max_pixels;
    if (options_.isolate.images)
      options.codec = isolated_images_ =
          std::make_shared<IsolatedImageCodec>(native_workers_, "", options.most_threads);
    return options;
  }

  // The workers that belong to no model. Any thread.
  std::vector<InstanceReport> OwnWorkers() const {
    std::vector<InstanceReport> reports;
    if (isolated_images_) {
      if (auto report = isolated_images_->report()) reports.push_back(*std::move(report));
    }
    for (const auto& library : isolated_calculators_) reports.push_back(library->report());
    return reports;
  }

  Status MakeOpenVino() {
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

  Result<std::shared_ptr<const CustomNodeLibrary>> OpenLibrary(const OvmsCustomNodeLibrary& library) {
    if (!library.isolate.value_or(options_.isolate.custom_nodes))
      return CustomNodeLibrary::Open(library.name, library.base_path);
    return OpenIsolatedLibrary(native_workers_, library.name, library.base_path,
                               CustomNodeThreads::kMostThreads);
  }

  // --model-load-gpu-limit. Any thread.
  Status CheckLoad(const std::string& model, int gpu) {
    const auto limit = options_.model_load_gpu_limit.find(gpu);
    if (limit == options_.model_load_gpu_limit.end()) return OkStatus();
    const auto device = std::ranges::find(gpus_.devices, gpu, &GpuDevice::id);
    const std::string who = fmt::format("model '{}' is not loaded on GPU {}: ", model, gpu);
    auto memory = nvml_.Memory(device->uuid);
    if (!memory.ok())
      return memory.status().WithPrefix(who + "--model-load-gpu-limit cannot be kept without ");
    const double used = static_cast<double>(memory->used_bytes) / static_cast<double>(memory->total_bytes);
    if (used <= limit->second) return OkStatus();
    return UnavailableError(
        who + fmt::format("{:.1f}% of its memory is in use, and --model-load-gpu-limit allows {:.1f}%",
                          100 * used, 100 * limit->second));
  }

  Result<IsolatedCalculators> OpenCalculators(const std::string& path) {
    NativeTask task;
    task.kind = NativeTask::Kind::kCalculators;
    task.library_path = std::filesystem::absolute(path).string();
    task.library_name = std::filesystem::path(path).stem().string();
    task.most_calls = kMostCalculators;
    BRAID_ASSIGN_OR_RETURN(std::shared_ptr<NativeFunction> function,
                           NativeFunction::Load(native_workers_, task.library_name, task));
    isolated_calculators_.push_back(function);
    return IsolatedCalculators{function->answer().calculators, [function](std::vector<Tensor> inputs) {
                                 return function->Call(std::move(inputs));
                               }};
  }

  // The Python that models and nodes of graphs run in. Started with the first that needs it, so that a server
  // without any needs no interpreter. Any thread.
  Result<PythonBackend*> Python() {
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
    workers.keep_sequences = sequence_vault_ != nullptr;
    BRAID_ASSIGN_OR_RETURN(python_, PythonBackend::Create(std::move(workers), log_));
    return python_.get();
  }

  Status OpenSequenceStore() {
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

  Status OpenSequenceVault() {
    SequenceVault::Options vault;
    vault.path = options_.sequence_state_path;
    vault.store = state_store_.get();
    vault.interval_ns = state_store_ ? 0 : options_.sequence_state_interval_seconds * kSecondNs;
    vault.hold_ns = options_.exit_timeout_secs * kSecondNs;
    BRAID_ASSIGN_OR_RETURN(sequence_vault_, SequenceVault::Open(vault, log_));
    return OkStatus();
  }

  Status MakeManager() {
    BRAID_ASSIGN_OR_RETURN(ManagerOptions options, MakeManagerOptions(options_));
    options.sequence_vault = sequence_vault_.get();
    FolderMakers folders;
    if (options.folders) {
      BRAID_ASSIGN_OR_RETURN(PythonBackend * python, Python());
      folders.backends = {python, openvino_.get()};
    }
    folders.make_model = [this](ServableInfo info, std::unique_ptr<BackendModel> model,
                                const std::function<void(const std::string&)>& progress) {
      return CreateModel(std::move(info), std::move(model), progress);
    };
    folders.make_ensemble = [this](ServableInfo info, const WhyMissing& why_missing) {
      return CreateEnsemble(std::move(info), why_missing);
    };
    ConfigMakers config;
    config.load_model = [this](const OvmsModelConfig& entry, int64_t version, const std::string& path) {
      return openvino_->Load(entry, version, path);
    };
    config.make_servable = [this](ServableInfo info, std::unique_ptr<BackendModel> model) {
      return CreateModel(std::move(info), std::move(model), [](const std::string&) {});
    };
    config.open_library = [this](const OvmsCustomNodeLibrary& library) { return OpenLibrary(library); };
    config.make_pipeline = [this](const OvmsPipelineConfig& entry, const CustomNodeLibraries& libraries) {
      return CreatePipeline(entry, libraries);
    };
    config.make_graph = [this](const OvmsGraphConfig& entry, std::vector<std::string>& files) {
      return CreateGraph(entry, files);
    };
    if (options.config) {
      OpenIsolatedCalculators open;
      if (options_.isolate.calculators)
        open = [this](const std::string& path) { return OpenCalculators(path); };
      BRAID_ASSIGN_OR_RETURN(calculators_, MakeCalculators(options_.calculator_libraries, open));
    }
    const bool has_folders = options.folders.has_value();
    manager_ =
        std::make_unique<Manager>(std::move(options), catalog_, std::move(folders), std::move(config), log_);
    if (has_folders) {
      model_asks_ = std::make_unique<ModelAsks>(catalog_, *manager_);
      model_asks_->AddTo(worker_services_);
    }
    return OkStatus();
  }

  // The metrics that the command line asks for, else those of the config.json; nothing when they are off.
  std::optional<OvmsMetricsConfig> OvmsMetricsWanted() const {
    if (options_.metrics_enable) return OvmsMetricsConfig{true, options_.metrics_list};
    std::optional<OvmsMetricsConfig> metrics = manager_->metrics();
    return metrics && metrics->enable ? metrics : std::nullopt;
  }

  Result<LatencyOptions> LatencyOf(const ServableInfo& info) const {
    BRAID_ASSIGN_OR_RETURN(LatencyOptions latency, LatencyOptionsFor(info, options_, log_));
    if (info.dialect == Dialect::kOvms && OvmsMetricsWanted()) {
      latency.ovms_bounds_us = OvmsLatencyOptions().ovms_bounds_us;
    }
    return latency;
  }

  Status StartManager(Status& load_status) {
    BRAID_RETURN_IF_ERROR(manager_->Start(load_status));
    const std::optional<OvmsMetricsConfig> metrics =
        options_.serves_config() ? OvmsMetricsWanted() : std::nullopt;
    if (!metrics) return OkStatus();
    if (!options_.allow_http) return InvalidArgumentError("Missing rest_port parameter in server CLI");
    BRAID_ASSIGN_OR_RETURN(MetricsCollector collect, OvmsMetrics(catalog_, metrics->list));
    ovms_metrics_.Enable([collect = std::move(collect)] { return OvmsMetricsText(collect); });
    return Describe({.tensorflow_serving = true, .metrics = true}, context_->http_access, http_openapi_);
  }

  Result<std::shared_ptr<Servable>> CreateModel(ServableInfo info, std::unique_ptr<BackendModel> model,
                                                const std::function<void(const std::string&)>& progress) {
    BRAID_ASSIGN_OR_RETURN(const LatencyOptions latency, LatencyOf(info));
    InstancePool::Options scheduling;
    scheduling.outage_wait_ns = options_.outage_wait_ms * 1'000'000;
    scheduling.call_graph = &call_graph_;
    scheduling.images = &images_;
    scheduling.limiter = limiter_.get();
    scheduling.cache = cache_.get();
    scheduling.state_store = state_store_.get();
    BRAID_ASSIGN_OR_RETURN(
        auto servable, StartModel(std::move(info), std::move(model), timers_, log_, progress, scheduling));
    Configure(*servable, latency);
    return std::shared_ptr<Servable>(std::move(servable));
  }

  void Configure(Servable& servable, const LatencyOptions& latency) const {
    servable.statistics().Configure(latency);
    servable.set_input_limit(&input_limit_);
    const ServableInfo& info = servable.info();
    if (cache_ != nullptr || info.config == nullptr || !info.config->response_cache().enable()) return;
    BRAID_LOG_WARNING(log_,
                      "model '{}' asks for the response cache, which is off: start the server with "
                      "--cache-config=local,size=BYTES to have it",
                      info.name);
  }

  Result<std::shared_ptr<Servable>> CreateEnsemble(ServableInfo info, const WhyMissing& why_missing) {
    BRAID_ASSIGN_OR_RETURN(const LatencyOptions latency, LatencyOf(info));
    BRAID_ASSIGN_OR_RETURN(auto servable, MakeEnsemble(std::move(info), dag_deps_, why_missing));
    Configure(*servable, latency);
    return servable;
  }

  Result<std::shared_ptr<Servable>> CreatePipeline(const OvmsPipelineConfig& config,
                                                   const CustomNodeLibraries& libraries) {
    BRAID_ASSIGN_OR_RETURN(auto servable, MakePipeline(config, libraries, custom_node_threads_, dag_deps_));
    BRAID_ASSIGN_OR_RETURN(const LatencyOptions latency, LatencyOf(servable->info()));
    Configure(*servable, latency);
    return servable;
  }

  Result<std::shared_ptr<Servable>> CreateGraph(const OvmsGraphConfig& config,
                                                std::vector<std::string>& files) {
    GraphDeps deps{catalog_, calculators_, timers_, graph_threads_};
    deps.start_python = [this, &files](
                            const std::string& graph,
                            std::vector<PythonNodeSpec> nodes) -> Result<std::unique_ptr<PythonNodes>> {
      for (const PythonNodeSpec& node : nodes) files.push_back(node.handler_path);
      BRAID_ASSIGN_OR_RETURN(PythonBackend * python, Python());
      return python->StartNodes(graph, std::move(nodes));
    };
    deps.cores = std::max(1u, std::thread::hardware_concurrency());
    deps.no_queue = !options_.environment.graph_queues;
    BRAID_ASSIGN_OR_RETURN(auto servable, GraphServable::Create(config, deps));
    BRAID_ASSIGN_OR_RETURN(const LatencyOptions latency, LatencyOf(servable->info()));
    Configure(*servable, latency);
    return std::shared_ptr<Servable>(std::move(servable));
  }

  // Opens the ports; each model is served from the moment it is loaded.
  Status Listen() {
    BRAID_ASSIGN_OR_RETURN(tracer_, TraceManager::Create(options_.trace, BRAID_VERSION, log_));
    context_ = std::make_unique<ProtocolContext>(
        ProtocolContext{catalog_, *control_, log_, options_.id, BRAID_VERSION, ExtensionNames(options_)});
    std::vector<int> gpu_ids;
    for (const GpuDevice& gpu : gpus_.devices) gpu_ids.push_back(gpu.id);
    context_->client_memory->set_gpus(std::make_unique<ClientGpus>(
        gpus_.driver, gpu_ids,
        ClientGpus::Options{.limit_ns = options_.gpu_timeout_ms * kMillisecondNs,
                            .log = &log_,
                            .max_pinned_bytes = options_.workers.pinned_pool_bytes}));
    if (!options_.takes_client_shm()) {
      context_->client_memory->Forbid(
          options_.origin("allow-client-shm") == OptionOrigin::kDefault
              ? "it listens beyond this machine's loopback interface, and has no --allow-client-shm"
              : "--allow-client-shm=false");
    }
    context_->client_memory->set_max_bytes(
        options_.client_shm_max_bytes == 0 ? MemorySize() : options_.client_shm_max_bytes);
    context_->tracer = tracer_.get();
    BRAID_RETURN_IF_ERROR(MakeAccess());
    // A client may show the secret of one port at the other.
    std::vector<std::string> secrets = context_->http_access.SecretHeaders();
    std::ranges::copy(context_->grpc_access.SecretHeaders(), std::back_inserter(secrets));
    BRAID_ASSIGN_OR_RETURN(context_->http_headers,
                           HeaderForwarding::Create(options_.http_header_forward_pattern, secrets));
    BRAID_ASSIGN_OR_RETURN(context_->grpc_headers,
                           HeaderForwarding::Create(options_.grpc_header_forward_pattern, secrets));
    ClientLimits::Options limits = options_.limits;
    if (limits.memory_bytes == 0) limits.memory_bytes = MemorySize() / 2;
    limits_ = std::make_shared<ClientLimits>(limits, &log_);
    const uint64_t queued = options_.model_max_queued_bytes;
    input_limit_.most =
        static_cast<int64_t>(std::min<uint64_t>(queued == 0 ? limits.memory_bytes / 2 : queued, INT64_MAX));
    input_limit_.on_refusal = [this](std::string_view text) {
      limits_->refusals.Count(Limit::kModelBytes, text);
    };
    BRAID_RETURN_IF_ERROR(ReadCertificates());
    CollectMetrics();
    if (options_.console_place() != ConsolePlace::kNone) MakeConsole();
    if (options_.allow_http) BRAID_RETURN_IF_ERROR(ListenForHttp());
    if (options_.allow_grpc) BRAID_RETURN_IF_ERROR(ListenForGrpc());
    if (options_.allow_metrics) BRAID_RETURN_IF_ERROR(ListenForMetrics());
    if (!options_.admin_address.empty()) BRAID_RETURN_IF_ERROR(ListenForManagement());
    if (console_) {
      console_->SetAddresses(addresses_);
      for (OpenApiRoute* route : {&http_openapi_, &metrics_openapi_, &admin_openapi_})
        if (const auto port = console_->Port(addresses_)) route->LeadToConsole(*port);
    }
    return OkStatus();
  }

  void MakeConsole() {
    console_ = std::make_unique<Console>(
        Console::Surroundings{.options = options_,
                              .context = *context_,
                              .limits = *limits_,
                              .memory = process_memory_,
                              .timers = timers_,
                              .log = recent_log_,
                              .traces = tracer_.get(),
                              .http_connections = [this] { return http_ ? http_->connection_count() : 0; },
                              .grpc_connections = [this] { return grpc_ ? grpc_->connection_count() : 0; }});
  }

  // Who may do what, and at which port.
  Status MakeAccess() {
    if (!options_.access_files.tokens.empty() || !options_.access_files.policy.empty()) {
      FileStamps before({options_.access_files.tokens, options_.access_files.policy});
      BRAID_ASSIGN_OR_RETURN(access_control_, AccessControl::Create(options_.access_files, log_));
      file_watcher_.Add(std::move(before), [this] { access_control_->Reload(); });
    }
    AccessPolicy http(AccessPolicy::Wire::kHttp, access_control_.get());
    AccessPolicy grpc(AccessPolicy::Wire::kGrpc, access_control_.get());
    for (const std::string& flag : options_.http_restricted_apis)
      BRAID_RETURN_IF_ERROR(http.AddRestriction(flag));
    for (const std::string& flag : options_.grpc_restricted_protocols)
      BRAID_RETURN_IF_ERROR(grpc.AddRestriction(flag));
    if (const std::string& file = options_.http_restricted_api_file; !file.empty())
      BRAID_RETURN_IF_ERROR(http.AddRestrictionsOf(file));
    if (const std::string& file = options_.grpc_restricted_protocol_file; !file.empty())
      BRAID_RETURN_IF_ERROR(grpc.AddRestrictionsOf(file));
    admin_access_ = metrics_access_ = http;
    ApiSet clients = ApiSet::All();
    ApiSet metrics = ApiSet::Of({Api::kHealth, Api::kMetrics});
    if (options_.console_place() == ConsolePlace::kMetricsPort) metrics = Console::Apis();
    if (!options_.admin_address.empty()) {
      ApiSet admin;
      for (int api = 0; api < kApiCount; ++api) {
        if (ServerOptions::AdminServes(static_cast<Api>(api))) admin.Add(static_cast<Api>(api));
      }
      if (options_.console_place() == ConsolePlace::kAdminPort) admin.Add(Api::kInference);
      admin_access_.ServeOnly(admin);
      for (const Api api : options_.admin_apis) {
        clients.Remove(api);
        metrics.Remove(api);
      }
    }
    http.ServeOnly(clients);
    grpc.ServeOnly(clients);
    metrics_access_.ServeOnly(metrics);
    context_->http_access = std::move(http);
    context_->grpc_access = std::move(grpc);
    return OkStatus();
  }

  // Of the ports that speak TLS. They are read again when they change.
  Status ReadCertificates() {
    BRAID_ASSIGN_OR_RETURN(http_tls_, ReadCertificates(options_.http_tls, "http/1.1"));
    BRAID_ASSIGN_OR_RETURN(grpc_tls_, ReadCertificates(options_.grpc_tls, "h2"));
    addresses_.https = http_tls_ != nullptr;
    return OkStatus();
  }
  // Null where TLS is not used.
  Result<std::shared_ptr<TlsSource>> ReadCertificates(const TlsOptions& options, std::string protocol) {
    if (!options.use) return std::shared_ptr<TlsSource>();
    FileStamps before({options.certificate_file, options.key_file, options.root_file});
    BRAID_ASSIGN_OR_RETURN(auto source, TlsSource::Create(options, std::move(protocol)));
    file_watcher_.Add(std::move(before), [this, source] {
      if (Status read = source->Reload(); read.ok()) {
        BRAID_LOG_INFO(log_, "certificates were read again");
      } else {
        BRAID_LOG_ERROR(log_, "certificates stay as they were: {}", read.message());
      }
    });
    return source;
  }

  std::unique_ptr<KserveHttp> MakeKserveHttp() {
    return std::make_unique<KserveHttp>(*context_,
                                        KserveHttp::Options{options_.http.max_input_bytes, ConfigToJson});
  }
  std::unique_ptr<TfsRoutes> MakeTfsRoutes() {
    return std::make_unique<TfsRoutes>(*context_, options_.serves_config() ? manager_.get() : nullptr);
  }

  Status Describe(const RestProtocols& protocols, const AccessPolicy& access, OpenApiRoute& route) const {
    return DescribeRest(protocols, access, access_control_ != nullptr, route);
  }

  Status ListenForHttp() {
    BRAID_RETURN_IF_ERROR(Describe({.tensorflow_serving = true}, context_->http_access, http_openapi_));
    tfs_routes_ = MakeTfsRoutes();
    kserve_http_ = MakeKserveHttp();
    HttpServer::Options http = options_.http;
    http.limits = limits_;
    http.tls = http_tls_;
    http.thread_watch = &thread_watch_;
    BRAID_ASSIGN_OR_RETURN(
        http_,
        HttpServer::Start(context_->http_access, *control_,
                          {&ovms_metrics_, &http_openapi_, tfs_routes_.get(), kserve_http_.get()}, http));
    addresses_.http = Endpoint(options_.http.address, http_->bound_port(), log_);
    return OkStatus();
  }

  Status ListenForGrpc() {
    tfs_grpc_ = std::make_unique<TfsServices>(*context_);
    kserve_grpc_ = std::make_unique<KserveGrpc>(
        *context_, KserveGrpc::Options{static_cast<int>(options_.model_load_thread_count)});
    GrpcServer::Options grpc = options_.grpc;
    grpc.tls = grpc_tls_;
    BRAID_ASSIGN_OR_RETURN(
        grpc_, GrpcServer::Start({catalog_, *control_, log_, context_->grpc_access, limits_, &thread_watch_},
                                 {kserve_grpc_.get(), tfs_grpc_.get()}, grpc));
    addresses_.grpc = Endpoint(options_.grpc.address, grpc_->bound_port(), log_);
    return OkStatus();
  }

  void CollectMetrics() {
    collectors_ = {ModelMetrics(catalog_, {options_.counter_latencies}),
                   PinnedMemoryMetrics(context_->client_memory->gpus()),
                   UserMetrics(custom_metrics_),
                   LimitMetrics(*limits_),
                   StartMetrics(),
                   ThreadMetrics(thread_watch_),
                   WorkerMetrics(
                       catalog_, [this] { return OwnWorkers(); }, worker_counters_, process_memory_)};
    if (access_control_) collectors_.push_back(AccessMetrics(*access_control_));
    if (options_.allow_cpu_metrics) collectors_.push_back(CpuMetrics(options_.metrics_interval_ms));
    if (options_.allow_gpu_metrics && !gpus_.devices.empty()) {
      collectors_.push_back(GpuMetrics(gpus_.devices, nvml_, options_.metrics_interval_ms));
      collectors_.push_back(GpuStallMetrics(gpus_.devices, context_->client_memory->gpus()));
    }
    metrics_route_.Enable([this] {
      MetricFamilies families;
      for (const MetricsCollector& collect : collectors_) collect(families);
      return MetricsText(families);
    });
  }

  // What a listener has of its own, so that it has room when clients of models have taken all of theirs.
  HttpServer::Options Reserved(const std::string& address, int port, std::string thread_name) {
    HttpServer::Options http = options_.http;
    http.address = address;
    http.port = static_cast<uint16_t>(port);
    http.reuse_port = false;
    http.tls = http_tls_;
    http.threads = 1;
    http.thread_watch = &thread_watch_;
    http.thread_name = std::move(thread_name);
    http.limits = std::make_shared<ClientLimits>(ClientLimits::Options{
        .connections = {kReservedConnections, kReservedConnections}, .memory_bytes = SIZE_MAX});
    return http;
  }

  // Metrics, health and perhaps the console: on a thread that nothing else uses.
  Status ListenForMetrics() {
    const std::string& address =
        options_.metrics_address.empty() ? options_.http.address : options_.metrics_address;
    HttpServer::Options http = Reserved(address, static_cast<int>(options_.metrics_port), "brd-metrics");
    http.body_limit_hint.clear();
    std::vector<HttpProtocol*> protocols = {&metrics_route_, &metrics_openapi_};
    const bool has_console = options_.console_place() == ConsolePlace::kMetricsPort;
    BRAID_RETURN_IF_ERROR(
        Describe({.tensorflow_serving = has_console, .metrics = true}, metrics_access_, metrics_openapi_));
    if (has_console) {
      AddConsole(http, protocols);
      tfs_metrics_ = MakeTfsRoutes();
      protocols.push_back(tfs_metrics_.get());
      http.max_input_bytes = std::min(http.max_input_bytes, Console::kMostInputBytes);
    } else {
      http.max_input_bytes = 1024;
      http.control_threads = 1;
      http.large_threads = 0;
    }
    kserve_metrics_ = MakeKserveHttp();
    protocols.push_back(kserve_metrics_.get());
    BRAID_ASSIGN_OR_RETURN(metrics_,
                           HttpServer::Start(metrics_access_, *control_, std::move(protocols), http));
    addresses_.metrics = Endpoint(address, metrics_->bound_port(), log_);
    return OkStatus();
  }

  Status ListenForManagement() {
    HttpServer::Options http = Reserved(options_.admin_address, options_.admin_port, "brd-admin");
    std::vector<HttpProtocol*> protocols = {&metrics_route_, &admin_openapi_};
    BRAID_RETURN_IF_ERROR(
        Describe({.tensorflow_serving = true, .metrics = true}, admin_access_, admin_openapi_));
    if (console_) AddConsole(http, protocols);
    kserve_admin_ = MakeKserveHttp();
    tfs_admin_ = MakeTfsRoutes();
    protocols.insert(protocols.end(), {tfs_admin_.get(), kserve_admin_.get()});
    BRAID_ASSIGN_OR_RETURN(admin_, HttpServer::Start(admin_access_, *control_, std::move(protocols), http));
    addresses_.admin = Endpoint(options_.admin_address, admin_->bound_port(), log_);
    return OkStatus();
  }

  // The page tries models, too: a request of it counts against the memory for clients as any.
  void AddConsole(HttpServer::Options& http, std::vector<HttpProtocol*>& protocols) {
    http.limits = std::make_shared<ClientLimits>(ClientLimits::Options{
        .connections = {kReservedConnections, kReservedConnections}, .memory_bytes = limits_->budget.most()});
    http.large_threads = 1;
    protocols.push_back(&console_->routes());
  }

  const ServerOptions options_;
  Logger& log_;
  const RecentLog* const recent_log_;  // null: none is kept
  const ProtobufLogRoute protobuf_log_{log_};
  const GpuDevices gpus_ = FindGpus(options_.min_supported_compute_capability);
  Nvml nvml_;
  ThreadWatch thread_watch_{log_};
  ProcessMemory process_memory_;
  WorkerCounters worker_counters_;
  HeapTrimmer heap_trimmer_;
  CustomMetrics custom_metrics_;
  InputLimit input_limit_;
  std::unique_ptr<StateStore> state_store_;  // null where replicas share no sequences
  // For what is not found, the server's own start decides how it is told.
  Catalog catalog_{options_.folders.model_repositories.empty() ? Dialect::kOvms : Dialect::kTriton,
                   RootsOfErrors(options_), options_.verbose_errors};
  TimerService timers_;
  const std::unique_ptr<ThreadWatch::Watched> timers_watched_ =
      thread_watch_.WatchTasks("brd-sched", [this](std::function<void()> task) {
        timers_.At(timers_.NowNs(), std::move(task));
        return true;
      });
  CallGraph call_graph_;
  WorkerServices worker_services_;
  WorkerServices native_services_;
  // Shared with backends.
  const std::shared_ptr<UserIds> user_ids_ = std::make_shared<UserIds>(
      options_.workers.isolation.first_user_id, options_.workers.isolation.last_user_id);
  Mutex support_mutex_;
  std::shared_ptr<WorkerSupport> support_ BRAID_GUARDED_BY(support_mutex_);  // shared with backends
  NativeWorkers native_workers_{NativeWorkerOptions()};
  std::shared_ptr<IsolatedImageCodec> isolated_images_;  // shared with the decoder; null: decoded in here
  ImageDecoder images_{ImageOptions()};
  // Null without one.
  const std::unique_ptr<ResponseCache> cache_ =
      options_.response_cache_bytes > 0 ? std::make_unique<ResponseCache>(options_.response_cache_bytes)
                                        : nullptr;
  const DagDeps dag_deps_{catalog_, timers_, call_graph_, &images_, cache_.get()};
  SequenceCleaner sequence_cleaner_{catalog_, timers_,
                                    options_.sequence_cleaner_poll_wait_seconds* kSecondNs};
  std::unique_ptr<RateLimiter> limiter_;  // null when the rate is not limited
  CustomNodeThreads custom_node_threads_;
  std::vector<std::shared_ptr<NativeFunction>> isolated_calculators_;  // shared with the registry
  std::shared_ptr<const graph::CalculatorRegistry> calculators_;       // shared with the graphs
  ElasticThreads graph_threads_{{.name = "brd-graph", .most = kMostCalculators}};
  std::unique_ptr<SequenceVault> sequence_vault_;  // null where sequences are not kept
  std::unique_ptr<OpenVinoIsolation> openvino_;
  Mutex python_mutex_;
  std::unique_ptr<PythonBackend> python_ BRAID_GUARDED_BY(python_mutex_);
  std::unique_ptr<Manager> manager_;
  std::unique_ptr<ModelAsks> model_asks_;  // null without model repositories
  std::unique_ptr<ServerControl> control_;
  std::unique_ptr<TraceManager> tracer_;
  std::shared_ptr<ClientLimits> limits_;  // shared with the ports
  std::shared_ptr<TlsSource> http_tls_;   // shared with the ports; null: none
  std::shared_ptr<TlsSource> grpc_tls_;   // likewise
  std::unique_ptr<ProtocolContext> context_;
  std::unique_ptr<AccessControl> access_control_;  // null where neither tokens nor a policy are given
  AccessPolicy admin_access_{AccessPolicy::Wire::kHttp};
  AccessPolicy metrics_access_{AccessPolicy::Wire::kHttp};
  FileWatcher file_watcher_;
  std::vector<MetricsCollector> collectors_;
  MetricsRoute metrics_route_;
  MetricsRoute ovms_metrics_;  // at the REST port
  OpenApiRoute http_openapi_;
  OpenApiRoute metrics_openapi_;
  OpenApiRoute admin_openapi_;
  std::unique_ptr<TfsRoutes> tfs_routes_;
  std::unique_ptr<KserveHttp> kserve_http_;
  std::unique_ptr<KserveHttp>
      kserve_metrics_;  // of the metrics port: health, and what the console's page asks for
  std::unique_ptr<TfsRoutes> tfs_metrics_;  // likewise; null without the console there
  std::unique_ptr<TfsRoutes> tfs_admin_;
  std::unique_ptr<KserveHttp> kserve_admin_;
  std::unique_ptr<Console> console_;  // null without one
  std::unique_ptr<KserveGrpc> kserve_grpc_;
  std::unique_ptr<TfsServices> tfs_grpc_;
  std::unique_ptr<HttpServer> http_;
  std::unique_ptr<GrpcServer> grpc_;
  std::unique_ptr<HttpServer> metrics_;
  std::unique_ptr<HttpServer> admin_;
  ServerAddresses addresses_;
};

Server::Server(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}
Server::~Server() {
  const PatientAllocation patience;
  parts_.reset();
}

Result<std::unique_ptr<Server>> Server::Start(const ServerOptions& options, Logger& log,
                                              const RecentLog* recent_log, Status& load_status) {
  auto parts = std::make_unique<Parts>(options, log, recent_log);
  BRAID_RETURN_IF_ERROR(parts->Start(load_status));
  return std::unique_ptr<Server>(new Server(std::move(parts)));
}

const ServerAddresses& Server::addresses() const { return parts_->addresses(); }
const Catalog& Server::catalog() const { return parts_->catalog(); }
const std::vector<GpuDevice>& Server::gpus() const { return parts_->gpus(); }
std::string Server::console_url() const { return parts_->console_url(); }
Status Server::Stop() { return parts_->Stop(); }

}  // namespace braid
