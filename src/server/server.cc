#include "server/server.h"

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <thread>

#include "backends/python/model_asks.h"
#include "backends/python/python_backend.h"
#include "base/clock.h"
#include "config/config_json.h"
#include "pipeline/ensemble.h"
#include "protocols/kserve/grpc_server.h"
#include "protocols/kserve/http_server.h"
#include "protocols/kserve/kserve_context.h"
#include "protocols/metrics/metrics_server.h"
#include "repository/model_repository.h"
#include "scheduling/scheduled_model.h"
#include "scheduling/sequence_model.h"
#include "scheduling/timer_service.h"
#include "server/heap_trimmer.h"
#include "server/latency_options.h"
#include "server/options_python.h"
#include "tracing/trace_manager.h"

namespace braid {
namespace {

constexpr int64_t kSecond = 1'000'000'000;
// Of the exit timeout, what is kept for finalizing models after the requests in flight have had their time.
constexpr int64_t kProtocolGraceNs = 2 * kSecond;

// The worker's files lie beside the program in a build, and under lib/ in an installation.
Result<std::string> FindWorkerDirectory() {
  std::error_code error;
  const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe", error);
  if (error) return InternalError("cannot find the program's own path: " + error.message());
  for (const char* place : {"worker", "../lib/braid/worker"}) {
    const std::filesystem::path candidate = program.parent_path() / place;
    if (std::filesystem::exists(candidate / "triton_python_backend_utils.py", error)) {
      return std::filesystem::weakly_canonical(candidate, error).string();
    }
  }
  return NotFoundError("the worker's files are missing: there is no 'worker' folder beside '" +
                       program.string() + "'");
}

std::string Endpoint(const std::string& address, int port) {
  const std::string host = address == "0.0.0.0" ? "127.0.0.1" : address;
  return (host.find(':') == std::string::npos ? host : "[" + host + "]") + ":" + std::to_string(port);
}

std::vector<std::string> Extensions() {
  return {"classification",
          "sequence",
          "model_repository",
          "schedule_policy",
          "model_configuration",
          "system_shared_memory",
          "cuda_shared_memory",
          "binary_tensor_data",
          "parameters",
          "statistics",
          "logging",
          "trace"};
}

RepositoryOptions MakeRepositoryOptions(const ServerOptions& options) {
  RepositoryOptions repository;
  repository.temporary_directory = TemporaryDirectory(ProcessEnvironment());
  repository.model_repositories = options.model_repositories;
  repository.control_mode = options.model_control_mode;
  repository.startup_models = options.startup_models;
  repository.poll_seconds = static_cast<int>(options.repository_poll_secs);
  repository.model_config_name = options.model_config_name;
  repository.auto_complete = options.auto_complete_config;
  repository.strict_readiness = options.strict_readiness;
  repository.exit_timeout_seconds = static_cast<int>(options.exit_timeout_secs);
  repository.load_thread_count = static_cast<int>(options.model_load_thread_count);
  repository.load_retry_count = static_cast<int>(options.model_load_retry_count);
  repository.backend_directory = options.backend_directory;
  return repository;
}

GrpcServer::Options MakeGrpcOptions(const ServerOptions& options) {
  GrpcServer::Options grpc;
  grpc.address = options.grpc_address;
  grpc.port = static_cast<int>(options.grpc_port);
  grpc.reuse_port = options.reuse_grpc_port;
  // Two that wait on the queues of one small machine wake each other up for every call.
  grpc.infer_threads = options.grpc_infer_thread_count > 0
                           ? static_cast<int>(options.grpc_infer_thread_count)
                           : std::max(1, static_cast<int>(std::thread::hardware_concurrency() / 2));
  grpc.load_threads = static_cast<int>(options.model_load_thread_count);
  grpc.use_ssl = options.grpc_use_ssl;
  grpc.ssl_mutual = options.grpc_use_ssl_mutual;
  grpc.server_cert_file = options.grpc_server_cert;
  grpc.server_key_file = options.grpc_server_key;
  grpc.root_cert_file = options.grpc_root_cert;
  switch (options.grpc_infer_response_compression_level) {
    case GrpcCompression::kNone:
      grpc.infer_response_compression = GrpcServer::Compression::kNone;
      break;
    case GrpcCompression::kLow:
      grpc.infer_response_compression = GrpcServer::Compression::kLow;
      break;
    case GrpcCompression::kMedium:
      grpc.infer_response_compression = GrpcServer::Compression::kMedium;
      break;
    case GrpcCompression::kHigh:
      grpc.infer_response_compression = GrpcServer::Compression::kHigh;
      break;
  }
  grpc.keepalive_time_ms = static_cast<int>(options.grpc_keepalive_time_ms);
  grpc.keepalive_timeout_ms = static_cast<int>(options.grpc_keepalive_timeout_ms);
  grpc.keepalive_permit_without_calls = options.grpc_keepalive_permit_without_calls;
  grpc.http2_max_pings_without_data = static_cast<int>(options.grpc_http2_max_pings_without_data);
  grpc.http2_min_recv_ping_interval_without_data_ms =
      static_cast<int>(options.grpc_http2_min_recv_ping_interval_without_data_ms);
  grpc.http2_max_ping_strikes = static_cast<int>(options.grpc_http2_max_ping_strikes);
  grpc.max_connection_age_ms = static_cast<int>(options.grpc_max_connection_age_ms);
  grpc.max_connection_age_grace_ms = static_cast<int>(options.grpc_max_connection_age_grace_ms);
  grpc.header_forward_pattern = options.grpc_header_forward_pattern;
  return grpc;
}

HttpServer::Options MakeHttpOptions(const ServerOptions& options) {
  HttpServer::Options http;
  http.address = options.http_address;
  http.port = static_cast<uint16_t>(options.http_port);
  http.reuse_port = options.reuse_http_port;
  http.threads = static_cast<int>(options.http_thread_count);
  http.max_input_bytes = options.http_max_input_size;
  http.header_forward_pattern = options.http_header_forward_pattern;
  http.config_to_json = ConfigToJson;
  return http;
}

}  // namespace

// In the order in which the parts depend on one another; they go in the reverse order.
class Server::Parts {
 public:
  Parts(const ServerOptions& options, Logger& log)
      : options_(options), log_(log), heap_trimmer_(options.memory_keep_bytes) {}

  Status Start(Status& load_status) {
    BRAID_ASSIGN_OR_RETURN(PythonChoice python, ResolvePython(options_, ProcessEnvironment()));
    PythonBackend::Options backend;
    backend.python = python.path;
    BRAID_ASSIGN_OR_RETURN(backend.worker_directory, FindWorkerDirectory());
    backend.worker_start = options_.worker_start;
    backend.stub_timeout_seconds = options_.stub_timeout_seconds;
    backend.memory_keep_bytes = options_.memory_keep_bytes;
    backend.worker_limits = options_.worker_limits;
    backend.environment_max_bytes = options_.environment_max_bytes;
    backend.temporary_directory = TemporaryDirectory(ProcessEnvironment());
    backend.services = &worker_services_;
    BRAID_ASSIGN_OR_RETURN(python_, PythonBackend::Create(std::move(backend), log_));
    if (options_.response_cache_bytes > 0) {
      cache_ = std::make_unique<ResponseCache>(options_.response_cache_bytes);
    }
    if (options_.rate_limit == RateLimitMode::kExecutionCount) {
      limiter_ = std::make_unique<RateLimiter>(options_.rate_limit_resources, timers_);
    }
    repository_ = std::make_unique<ModelRepository>(
        MakeRepositoryOptions(options_), catalog_, std::vector<Backend*>{python_.get()},
        [this](ServableInfo info, std::unique_ptr<BackendModel> model,
               const std::function<void(const std::string&)>& progress) -> Result<std::shared_ptr<Servable>> {
          BRAID_ASSIGN_OR_RETURN(const LatencyOptions latency, LatencyOptionsFor(info, options_));
          if (info.config->has_sequence_batching()) {
            SequenceModel::Options sequences;
            sequences.limits_rate = limiter_ != nullptr;
            BRAID_ASSIGN_OR_RETURN(auto servable, SequenceModel::Start(std::move(info), std::move(model),
                                                                       timers_, log_, progress, sequences));
            servable->statistics().Configure(latency);
            return std::shared_ptr<Servable>(std::move(servable));
          }
          ScheduledModel::Options scheduling;
          scheduling.cache = cache_.get();
          scheduling.limiter = limiter_.get();
          BRAID_ASSIGN_OR_RETURN(auto servable, ScheduledModel::Start(std::move(info), std::move(model),
                                                                      timers_, log_, progress, scheduling));
          servable->statistics().Configure(latency);
          return std::shared_ptr<Servable>(std::move(servable));
        },
        [this](ServableInfo info, const Ensemble::WhyMissing& why_missing) {
          return CreateEnsemble(std::move(info), why_missing);
        },
        log_);
    worker_services_.catalog = &catalog_;
    worker_services_.custom_metrics = &custom_metrics_;
    model_asks_ = std::make_unique<ModelAsks>(catalog_, *repository_);
    model_asks_->AddTo(worker_services_);
    BRAID_ASSIGN_OR_RETURN(tracer_, TraceManager::Create(options_.trace, BRAID_VERSION, log_));
    context_ = std::make_unique<KserveContext>(KserveContext{catalog_, *repository_, log_, options_.id,
                                                             BRAID_VERSION, Extensions(), AccessPolicy(),
                                                             AccessPolicy()});
    context_->client_memory->set_allowed(options_.allow_client_shm);
    context_->tracer = tracer_.get();
    for (const std::string& flag : options_.http_restricted_apis) {
      BRAID_RETURN_IF_ERROR(context_->http_access.AddRestriction(flag, "api"));
    }
    for (const std::string& flag : options_.grpc_restricted_protocols) {
      BRAID_RETURN_IF_ERROR(context_->grpc_access.AddRestriction(flag, "protocol"));
    }
    if (options_.allow_http) {
      BRAID_ASSIGN_OR_RETURN(http_, HttpServer::Start(*context_, MakeHttpOptions(options_)));
      addresses_.http = Endpoint(options_.http_address, http_->bound_port());
    }
    if (options_.allow_grpc) {
      BRAID_ASSIGN_OR_RETURN(grpc_, GrpcServer::Start(*context_, MakeGrpcOptions(options_)));
      addresses_.grpc = Endpoint(options_.grpc_address, grpc_->bound_port());
    }
    if (options_.allow_metrics) {
      MetricsServer::Options metrics;
      metrics.address = options_.metrics_address.empty() ? options_.http_address : options_.metrics_address;
      metrics.port = static_cast<uint16_t>(options_.metrics_port);
      metrics.collectors = {ModelMetrics(catalog_, {options_.counter_latencies}), PinnedMemoryMetrics()};
      metrics.collectors.push_back(UserMetrics(custom_metrics_));
      if (options_.allow_cpu_metrics) {
        metrics.collectors.push_back(CpuMetrics(options_.metrics_interval_ms));
      }
      const std::string address = metrics.address;
      BRAID_ASSIGN_OR_RETURN(metrics_, MetricsServer::Start(std::move(metrics)));
      addresses_.metrics = Endpoint(address, metrics_->bound_port());
    }
    load_status = repository_->Start();
    return OkStatus();
  }

  Status Stop() {
    const int64_t deadline = SteadyNowNs() + options_.exit_timeout_secs * kSecond;
    // New work is refused first; then the models end, which answers what is in flight; the protocols go last,
    // so that every answer still finds its client.
    if (grpc_) grpc_->Drain();
    Status stopped = repository_->Shutdown(deadline);
    const int64_t protocol_deadline = std::max(deadline, SteadyNowNs()) + kProtocolGraceNs;
    if (grpc_) grpc_->Shutdown(protocol_deadline);
    if (http_) http_->Shutdown(protocol_deadline);
    if (metrics_) metrics_->Shutdown(protocol_deadline);
    return stopped;
  }

  const ServerAddresses& addresses() const { return addresses_; }
  const Catalog& catalog() const { return catalog_; }

 private:
  Result<std::shared_ptr<Servable>> CreateEnsemble(ServableInfo info,
                                                   const Ensemble::WhyMissing& why_missing) {
    BRAID_ASSIGN_OR_RETURN(const LatencyOptions latency, LatencyOptionsFor(info, options_));
    BRAID_ASSIGN_OR_RETURN(auto servable, Ensemble::Create(std::move(info), catalog_, why_missing));
    servable->statistics().Configure(latency);
    return servable;
  }

  const ServerOptions options_;
  Logger& log_;
  HeapTrimmer heap_trimmer_;
  CustomMetrics custom_metrics_;
  Catalog catalog_;
  TimerService timers_;
  std::unique_ptr<ResponseCache> cache_;  // null without one
  std::unique_ptr<RateLimiter> limiter_;  // null when the rate is not limited
  WorkerServices worker_services_;
  std::unique_ptr<PythonBackend> python_;
  std::unique_ptr<ModelRepository> repository_;
  std::unique_ptr<ModelAsks> model_asks_;
  std::unique_ptr<TraceManager> tracer_;
  std::unique_ptr<KserveContext> context_;
  std::unique_ptr<HttpServer> http_;
  std::unique_ptr<GrpcServer> grpc_;
  std::unique_ptr<MetricsServer> metrics_;
  ServerAddresses addresses_;
};

Server::Server(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}
Server::~Server() = default;

Result<std::unique_ptr<Server>> Server::Start(const ServerOptions& options, Logger& log,
                                              Status& load_status) {
  auto parts = std::make_unique<Parts>(options, log);
  BRAID_RETURN_IF_ERROR(parts->Start(load_status));
  return std::unique_ptr<Server>(new Server(std::move(parts)));
}

const ServerAddresses& Server::addresses() const { return parts_->addresses(); }
const Catalog& Server::catalog() const { return parts_->catalog(); }
Status Server::Stop() { return parts_->Stop(); }

}  // namespace braid
