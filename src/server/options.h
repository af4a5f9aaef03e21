// ServerOptions: every setting of `braid serve`, with its value and the origin of the value.
//
//   braid::CommandLine line = braid::ParseServe(argc, argv);
//   if (line.exit_code) { print line.out and line.err; return *line.exit_code; }
//   for (auto& note : line.notes) BRAID_LOG_INFO(log, "{}", note);   // after the log is made
//   Serve(line.options);
//
// The options are Triton's, with their names, forms and defaults, and some of Braid's own. One table
// (options_table.cc) drives parsing, help, --print-config and the table of docs/configuration.md. Parsing is
// a pure function of the arguments: it reads no file and no environment.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "backends/python/python_backend.h"
#include "base/log.h"
#include "config/isolated_parts.h"
#include "images/encoded_images.h"
#include "protocols/access/access_control.h"
#include "protocols/access/api.h"
#include "protocols/grpc/server.h"
#include "protocols/http/server.h"
#include "protocols/net/tls.h"
#include "repository/manager_options.h"
#include "scheduling/rate_limiter.h"
#include "sequences/state_store.h"
#include "server/environment.h"
#include "server/fleet_view.h"
#include "tracing/trace_manager.h"

namespace braid {

// Whether the resources of instance groups limit the executions.
enum class RateLimitMode : unsigned char { kOff, kExecutionCount };

// The device of KIND_GPU instances without a GPU: none, or the CPU.
enum class GpuFallback : unsigned char { kNone, kCpu };

// The port that serves the console.
enum class ConsolePlace : unsigned char { kNone, kMetricsPort, kAdminPort };

enum class OptionOrigin : unsigned char {
  kDefault,
  kCommandLine,
  kImplied,  // by other options: --http-address by --host
};

// One value of --backend-config that Braid uses.
struct BackendSetting {
  std::string backend;  // empty: for all backends
  std::string key;
  std::string value;
};

// The store where replicas share sequences; the fields are options that begin with --sequence_state_store.
struct SequenceStoreOptions {
  std::string url;            // empty: no store. See ParseRedisUrl()
  std::string password_file;  // empty: no password
  std::string ca_file;        // for TLS; empty: the system's
  std::string cert_file;      // this client's; empty: none
  std::string key_file;
  StoreMode mode = StoreMode::kDurable;
  StoreAway unavailable = StoreAway::kRefuse;
  int64_t lag_ms = 1000;
  int64_t ttl_seconds = 3600;
  int64_t connect_timeout_ms = 1000;
  int64_t timeout_ms = 1000;
};

// Plain data, complete and valid after parsing. Comments name a field's option where the names differ.
struct ServerOptions {
  // Models. The repositories are --model-repository, --model-store and the positional arguments; there may be
  // none.
  FolderOptions folders;
  std::string model_cache_directory;  // empty: the temporary directory
  int64_t storage_timeout_secs = 60;
  int64_t model_load_thread_count = 4;
  bool exit_on_error = true;  // with --watch, by default false
  bool watch = false;
  int64_t exit_timeout_secs = 30;
  int64_t exit_notice_secs = 0;
  int64_t outage_wait_ms = 5000;
  std::string sequence_state_path;  // empty: sequences end with the server and at a reload
  int64_t sequence_state_interval_seconds = 60;
  SequenceStoreOptions sequence_store;
  int64_t sequence_drain_seconds = 0;
  IsolatedParts isolate;
  int64_t image_max_pixels = ImageDecoder::Options().most_pixels;
  std::string id = "triton";

  // Python
  // An empty interpreter is chosen by ResolvePython(). A segment limit of 0 bytes means the machine's memory.
  PythonBackend::Options workers = {
      .worker_segments = {8192, 0, "--worker-shm-max-segments", "--worker-shm-max-bytes"}};
  int spin_us = -1;                              // SpinControl::kAuto
  std::vector<BackendSetting> backend_settings;  // --backend-config, as given and in order

  // OpenVINO Model Server's options that name models
  ConfigOptions config;
  // Settings of the single model on the command line, by option; empty: none.
  std::map<std::string, std::string> model_settings;
  // Also set by --sequence_cleaner_poll_wait_minutes; 0: never.
  int64_t sequence_cleaner_poll_wait_seconds = 300;
  std::vector<std::string> calculator_libraries;
  std::string cache_dir;
  std::string cpu_extension;
  bool smaller_types = true;
  bool metrics_enable = false;
  std::vector<std::string> metrics_list;

  uint64_t model_max_queued_bytes = 0;                                 // 0: half of memory_bytes
  ClientLimits::Options limits{.connections = {}, .memory_bytes = 0};  // 0: half of MemorySize()

  // HTTP
  bool allow_http = true;
  HttpServer::Options http;  // max_input_bytes with a config.json: DefaultConfigInputSize()
  TlsOptions http_tls;       // of metrics too; --http-use-ssl, also set by --http-use-ssl-mutual
  std::string http_header_forward_pattern;
  std::vector<std::string> http_restricted_apis;

  // gRPC
  bool allow_grpc = true;
  GrpcServer::Options grpc;            // max_input_bytes as over HTTP
  TlsOptions grpc_tls;                 // --grpc-use-ssl, also set by --grpc-use-ssl-mutual
  std::string grpc_channel_arguments;  // as given; `grpc` has the parsed values
  std::string grpc_header_forward_pattern;
  std::vector<std::string> grpc_restricted_protocols;

  uint32_t unix_socket_mode = kUnixSocketMode;

  // Users and rights
  AccessControl::Files access_files;  // --token-file, --policy-file
  std::string http_restricted_api_file;
  std::string grpc_restricted_protocol_file;
  std::string admin_address;  // of --admin-address ADDR:PORT or unix:PATH; empty: no such listener
  uint16_t admin_port = 0;
  std::vector<Api> admin_apis = {Api::kModelRepository, Api::kTrace, Api::kLogging, Api::kMetrics};

  // Console
  bool allow_console = true;
  std::string fleet_endpoints;  // of the replicas in the console; empty: none. See FleetView::check()
  std::string fleet_ca_file;    // verifies their certificates; empty: the system's

  // Devices
  double min_supported_compute_capability = 6.0;
  GpuFallback gpu_fallback = GpuFallback::kNone;
  int64_t gpu_timeout_ms = 10000;
  // Limit on the used fraction of a GPU's memory when a model is loaded on it, by GPU.
  std::map<int, double> model_load_gpu_limit;

  // Shared memory of clients
  bool allow_client_shm = true;
  uint64_t client_shm_max_bytes = 0;  // 0: the machine's memory

  // Metrics
  bool allow_metrics = true;
  std::string metrics_address;  // empty: see metrics_addresses()
  int64_t metrics_port = 8002;
  bool allow_cpu_metrics = true;
  bool allow_gpu_metrics = true;
  int64_t metrics_interval_ms = 2000;
  bool counter_latencies = true;  // --metrics-config counter_latencies=BOOL
  bool summary_latencies = false;
  // Quantiles with their errors.
  std::vector<std::pair<double, double>> summary_quantiles = {
      {0.5, 0.05}, {0.9, 0.01}, {0.95, 0.001}, {0.99, 0.001}, {0.999, 0.001}};
  bool histogram_latencies = false;

  // Cache and limits
  uint64_t response_cache_bytes = 0;  // --cache-config=local,size=N, --response-cache-byte-size; 0: no cache
  RateLimitMode rate_limit = RateLimitMode::kOff;
  std::vector<ResourceLimit> rate_limit_resources;

  // Log
  int64_t log_verbose = 0;
  bool verbose_errors = false;
  bool log_info = true;
  bool log_warning = true;
  bool log_error = true;
  LogFormat log_format = LogFormat::kDefault;
  std::string log_file;

  // Tracing: --trace-config and its older forms
  TraceOptions trace;

  // Not from the command line: read by main().
  Environment environment;
  // The program's access to a fleet; null: the console shows no fleet.
  const FleetView* fleet_view = nullptr;

  // By option name without dashes. Options without an entry have their default.
  std::map<std::string, OptionOrigin, std::less<>> origins;

  // Returns whether --admin-address serves the group: operations that change or show the server. Requests of
  // models' clients are excluded, and reflection exists only in gRPC.
  static bool AdminServes(Api api) {
    return api != Api::kInference && api != Api::kSharedMemory && api != Api::kReflection;
  }

  // Returns --metrics-address; by default those of HTTP without Unix sockets, each of which serves one
  // protocol.
  std::string metrics_addresses() const;

  // Returns the management port if there is one, otherwise the metrics port. If metrics listen at another
  // address than HTTP, or without HTTP, the console needs an explicit --allow-console. Otherwise it would
  // open the page's APIs, such as inference and management, at an address that did not serve them before.
  ConsolePlace console_place() const;

  // Returns whether every port for clients, or with data about them, has a loopback address.
  bool loopback_only() const;
  // Returns --allow-client-shm; by default loopback_only(), since clients on other machines share no memory
  // with this one.
  bool takes_client_shm() const {
    return origin("allow-client-shm") == OptionOrigin::kDefault ? loopback_only() : allow_client_shm;
  }

  // Returns whether there is a config.json, or a single model in its place.
  bool serves_config() const { return !config.config_path.empty() || !model_settings.empty(); }

  OptionOrigin origin(std::string_view option) const {
    auto found = origins.find(option);
    return found == origins.end() ? OptionOrigin::kDefault : found->second;
  }
};

struct CommandLine {
  // Without an exit code, serve with `options`. With one, print `out` and `err` to the standard streams and
  // exit.
  std::optional<int> exit_code;
  std::string out;
  std::string err;

  ServerOptions options;
  // One sentence for each accepted option without effect; logged once at start.
  std::vector<std::string> notes;
};

// Parses the command line of `braid serve`, whose argv[1] is "serve". Reports errors only through
// CommandLine::exit_code. `fleet_view` checks --fleet-endpoints and becomes part of the options.
CommandLine ParseServe(int argc, const char* const* argv, const FleetView* fleet_view = nullptr);

}  // namespace braid
