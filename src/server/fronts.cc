#include "server/fronts.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/clock.h"
#include "base/unix_address.h"
#include "config/config_json.h"
#include "server/memory_size.h"
#include "server/part_options.h"

namespace braid {
namespace {

// Reserved connections of a port that must not depend on models' clients.
constexpr size_t kReservedConnections = 256;

// Returns the listed addresses with the port: "127.0.0.1:8000", "[::1]:8000", "unix:/run/http.sock".
std::vector<std::string> Endpoints(const std::string& addresses, int port) {
  std::vector<std::string> endpoints = ListedAddresses(addresses);
  for (std::string& address : endpoints) {
    if (const auto path = UnixPath(address); path.ok()) {
      address = UnixAddress(*path);
      continue;
    }
    if (address.find(':') != std::string::npos) address = "[" + address + "]";
    address += ":" + std::to_string(port);
  }
  return endpoints;
}

std::shared_ptr<ClientLimits> ReservedLimits(size_t memory_bytes) {
  return std::make_shared<ClientLimits>(ClientLimits::Options{
      .connections = {kReservedConnections, kReservedConnections}, .memory_bytes = memory_bytes});
}

}  // namespace

Fronts::Fronts(const ServerOptions& options, Logger& log, Loading& loading, Observability& seen,
               std::shared_ptr<ClientLimits> limits, ServerControl& control)
    : options_(options),
      log_(log),
      loading_(loading),
      seen_(seen),
      limits_(std::move(limits)),
      control_(control),
      context_{loading.catalog(), control, log, options.id, BRAID_VERSION, ExtensionNames(options)} {
  context_.tracer = seen.tracer.get();
}

Status Fronts::Listen() {
  ShareMemory();
  BRAID_RETURN_IF_ERROR(MakeAccess());
  // Certificates are reloaded when their files change.
  BRAID_ASSIGN_OR_RETURN(http_tls_, ReadCertificates(options_.http_tls, "http/1.1"));
  BRAID_ASSIGN_OR_RETURN(grpc_tls_, ReadCertificates(options_.grpc_tls, "h2"));
  addresses_.https = http_tls_ != nullptr;
  CollectMetrics();
  if (options_.console_place() != ConsolePlace::kNone) MakeConsole();
  if (options_.allow_http) {
    HttpServer::Options http = options_.http;
    http.unix_socket_mode = options_.unix_socket_mode;
    http.limits = limits_;
    http.tls = http_tls_;
    http.thread_watch = &seen_.thread_watch;
    BRAID_RETURN_IF_ERROR(
        OpenHttp(http_, http, seen_.ovms_metrics, {.tensorflow_serving = true}, false, addresses_.http));
  }
  if (options_.allow_grpc) BRAID_RETURN_IF_ERROR(OpenGrpc());
  if (options_.allow_metrics) BRAID_RETURN_IF_ERROR(OpenMetrics());
  if (!options_.admin_address.empty()) {
    BRAID_RETURN_IF_ERROR(OpenHttp(admin_, Reserved(options_.admin_address, options_.admin_port, "brd-admin"),
                                   seen_.metrics, {.tensorflow_serving = true, .metrics = true},
                                   console_ != nullptr, addresses_.admin));
  }
  if (console_) {
    console_->SetAddresses(addresses_);
    for (HttpPort* port : {&http_, &metrics_, &admin_})
      if (const auto at = console_->Port(addresses_)) port->openapi.LeadToConsole(*at);
  }
  return OkStatus();
}

// Configures shared memory with clients on this machine.
void Fronts::ShareMemory() {
  ClientSharedMemory& memory = *context_.client_memory;
  const GpuDevices& gpus = loading_.gpus();
  std::vector<int> gpu_ids;
  for (const GpuDevice& gpu : gpus.devices) gpu_ids.push_back(gpu.id);
  memory.set_gpus(std::make_unique<ClientGpus>(
      gpus.driver, gpu_ids,
      ClientGpus::Options{.limit_ns = options_.gpu_timeout_ms * kMillisecondNs,
                          .log = &log_,
                          .max_pinned_bytes = options_.workers.pinned_pool_bytes}));
  if (!options_.takes_client_shm()) {
    memory.Forbid(options_.origin("allow-client-shm") == OptionOrigin::kDefault
                      ? "it listens beyond the loopback interface without --allow-client-shm"
                      : "--allow-client-shm=false");
  }
  memory.set_max_bytes(options_.client_shm_max_bytes == 0 ? MemorySize() : options_.client_shm_max_bytes);
}

// Sets the rights at each port.
Status Fronts::MakeAccess() {
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
  // A client may send one port's secret to the other.
  std::vector<std::string> secrets = http.SecretHeaders();
  std::ranges::copy(grpc.SecretHeaders(), std::back_inserter(secrets));
  context_.http_access = std::move(http);
  context_.grpc_access = std::move(grpc);
  BRAID_ASSIGN_OR_RETURN(context_.http_headers,
                         HeaderForwarding::Create(options_.http_header_forward_pattern, secrets));
  BRAID_ASSIGN_OR_RETURN(context_.grpc_headers,
                         HeaderForwarding::Create(options_.grpc_header_forward_pattern, secrets));
  return OkStatus();
}

// Returns null without TLS.
Result<std::shared_ptr<TlsSource>> Fronts::ReadCertificates(const TlsOptions& options, std::string protocol) {
  if (!options.use) return std::shared_ptr<TlsSource>();
  FileStamps before({options.certificate_file, options.key_file, options.root_file});
  BRAID_ASSIGN_OR_RETURN(auto source, TlsSource::Create(options, std::move(protocol)));
  file_watcher_.Add(std::move(before), [this, source] {
    if (Status read = source->Reload(); read.ok()) {
      BRAID_LOG_INFO(log_, "certificates reloaded");
    } else {
      BRAID_LOG_ERROR(log_, "keeping the previous certificates: {}", read.message());
    }
  });
  return source;
}

void Fronts::CollectMetrics() {
  seen_.Collect({.catalog = loading_.catalog(),
                 .limits = *limits_,
                 .client_gpus = context_.client_memory->gpus(),
                 .access = access_control_.get(),
                 .gpus = loading_.gpus().devices,
                 .nvml = loading_.nvml(),
                 .own_workers = [this] { return loading_.OwnWorkers(); }});
}

void Fronts::MakeConsole() {
  console_ = std::make_unique<Console>(Console::Dependencies{
      .options = options_,
      .context = context_,
      .limits = *limits_,
      .seen = seen_,
      .timers = loading_.timers(),
      .http_connections = [this] { return http_.server ? http_.server->connection_count() : 0; },
      .grpc_connections = [this] { return grpc_ ? grpc_->connection_count() : 0; }});
}

Status Fronts::Describe(HttpPort& port, const RestProtocols& rest) const {
  return DescribeRest(rest, port.access, access_control_ != nullptr, port.openapi);
}

Status Fronts::DescribeOvmsMetrics() {
  return Describe(http_, {.tensorflow_serving = true, .metrics = true});
}

// The first protocol that knows a path answers it.
Status Fronts::OpenHttp(HttpPort& port, const HttpServer::Options& options, MetricsRoute& metrics,
                        const RestProtocols& rest, bool console, std::vector<std::string>& endpoints) {
  BRAID_RETURN_IF_ERROR(Describe(port, rest));
  HttpServer::Options http = options;
  http.on_demand = context_.catalog.on_demand_loader();
  std::vector<HttpProtocol*> protocols = {&metrics, &port.openapi};
  if (console) {
    // The page also tries models. The memory limit for its requests is as large as that of models' clients.
    http.limits = ReservedLimits(limits_->budget.most());
    http.large_threads = 1;
    protocols.push_back(&console_->routes());
  }
  if (rest.tensorflow_serving) {
    port.tfs =
        std::make_unique<TfsRoutes>(context_, options_.serves_config() ? &loading_.manager() : nullptr);
    port.openai = std::make_unique<OpenAiRoutes>(context_, port.tfs.get());
    protocols.push_back(port.openai.get());
    protocols.push_back(port.tfs.get());
  }
  port.kserve = std::make_unique<KserveHttp>(
      context_, KserveHttp::Options{options_.http.max_input_bytes, ConfigToJson});
  protocols.push_back(port.kserve.get());
  BRAID_ASSIGN_OR_RETURN(port.server, HttpServer::Start(port.access, control_, std::move(protocols), http));
  endpoints = Endpoints(options.address, port.server->bound_port());
  return OkStatus();
}

// Returns options with reserved resources, so that the port works when models' clients have exhausted theirs.
HttpServer::Options Fronts::Reserved(const std::string& address, int port, std::string thread_name) const {
  HttpServer::Options http = options_.http;
  http.address = address;
  http.port = static_cast<uint16_t>(port);
  http.reuse_port = false;
  http.unix_socket_mode = options_.unix_socket_mode;
  http.tls = http_tls_;
  http.threads = 1;
  http.thread_watch = &seen_.thread_watch;
  http.thread_name = std::move(thread_name);
  http.limits = ReservedLimits(SIZE_MAX);
  return http;
}

// Opens the port for metrics, health and perhaps the console, on its own thread.
Status Fronts::OpenMetrics() {
  HttpServer::Options http =
      Reserved(options_.metrics_addresses(), static_cast<int>(options_.metrics_port), "brd-metrics");
  http.body_limit_hint.clear();
  const bool console = options_.console_place() == ConsolePlace::kMetricsPort;
  if (console) {
    http.max_input_bytes = std::min(http.max_input_bytes, Console::kMostInputBytes);
  } else {
    http.max_input_bytes = 1024;
    http.control_threads = 1;
    http.large_threads = 0;
  }
  return OpenHttp(metrics_, http, seen_.metrics, {.tensorflow_serving = console, .metrics = true}, console,
                  addresses_.metrics);
}

Status Fronts::OpenGrpc() {
  tfs_grpc_ = std::make_unique<TfsServices>(context_);
  kserve_grpc_ = std::make_unique<KserveGrpc>(
      context_, KserveGrpc::Options{static_cast<int>(options_.model_load_thread_count)});
  GrpcServer::Options grpc = options_.grpc;
  grpc.unix_socket_mode = options_.unix_socket_mode;
  grpc.tls = grpc_tls_;
  BRAID_ASSIGN_OR_RETURN(grpc_, GrpcServer::Start({context_.catalog, control_, log_, context_.grpc_access,
                                                   limits_, &seen_.thread_watch},
                                                  {kserve_grpc_.get(), tfs_grpc_.get()}, grpc));
  addresses_.grpc = Endpoints(options_.grpc.address, grpc_->bound_port());
  return OkStatus();
}

void Fronts::Drain() {
  if (grpc_) grpc_->Drain();
  for (const HttpPort* port : {&http_, &metrics_, &admin_})
    if (port->server) port->server->Drain();
}

void Fronts::Shutdown(int64_t deadline_ns) {
  if (grpc_) grpc_->Shutdown(deadline_ns);
  for (const HttpPort* port : {&http_, &metrics_, &admin_})
    if (port->server) port->server->Shutdown(deadline_ns);
}

}  // namespace braid
