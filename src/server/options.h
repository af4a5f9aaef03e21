// What the operator chose: every setting of `braid serve`, its value, and where the value comes from.
//
//   braid::CommandLine line = braid::ParseServe(argc, argv);
//   if (line.exit_code) { print line.out and line.err; return *line.exit_code; }
//   Serve(line.options);   // after the log is made: for (auto& note : line.notes) BRAID_LOG_INFO(log, "{}",
//   note);
//
// The options are Triton's with their names, forms and defaults, and a few of Braid's own. One table
// (options_table.cc) drives the parsing, the help, --print-config and the table of docs/configuration.md.
// Parsing is a pure function of the arguments: it reads no file and no environment.
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

// Whether instances run only with the resources that their groups ask for.
enum class RateLimitMode : unsigned char { kOff, kExecutionCount };

// Where instances of KIND_GPU run without a GPU: nowhere, or on the CPU.
enum class GpuFallback : unsigned char { kNone, kCpu };

// Where the console is served.
enum class ConsolePlace : unsigned char { kNone, kMetricsPort, kAdminPort };

enum class OptionOrigin : unsigned char {
  kDefault,
  kCommandLine,
  kImplied,  // by another option: --http-address by --host
};

// One value of --backend-config that means something to Braid.
struct BackendSetting {
  std::string backend;  // empty: for all backends
  std::string key;
  std::string value;
};

// Where replicas share sequences; the fields are options that begin with --sequence_state_store.
struct SequenceStoreOptions {
  std::string url;            // empty: nowhere. See ParseRedisUrl()
  std::string password_file;  // empty: the store asks for none
  std::string ca_file;        // of TLS; empty: the system's
  std::string cert_file;      // of this client; empty: none
  std::string key_file;
  StoreMode mode = StoreMode::kDurable;
  StoreAway unavailable = StoreAway::kRefuse;
  int64_t lag_ms = 1000;
  int64_t ttl_seconds = 3600;
  int64_t connect_timeout_ms = 1000;
  int64_t timeout_ms = 1000;
};

// Plain data, complete and valid after parsing. The comments name the option of a field where its name does
// not.
struct ServerOptions {
  // Models The repositories are --model-repository, --model-store and the arguments that are no options; may
  // be none.
  FolderOptions folders;
  int64_t model_load_thread_count = 4;
  bool exit_on_error = true;
  int64_t exit_timeout_secs = 30;
  int64_t exit_notice_secs = 0;
  int64_t outage_wait_ms = 5000;
  std::string sequence_state_path;  // empty: sequences end with the server, and at a reload
  int64_t sequence_state_interval_seconds = 60;
  SequenceStoreOptions sequence_store;
  int64_t sequence_drain_seconds = 0;
  IsolatedParts isolate;
  int64_t image_max_pixels = ImageDecoder::Options().most_pixels;
  std::string id = "triton";

  // Python
  // No interpreter: chosen by ResolvePython(). No bytes of segments: as much as the machine has memory.
  PythonBackend::Options workers = {
      .worker_segments = {8192, 0, "--worker-shm-max-segments", "--worker-shm-max-bytes"}};
  std::vector<BackendSetting> backend_settings;  // --backend-config, as given and in order

  // OpenVINO Model Server's way to name models
  ConfigOptions config;
  // Settings of the one model that the command line names, by option; empty: none.
  std::map<std::string, std::string> model_settings;
  // --sequence_cleaner_poll_wait_minutes sets it too; 0: never.
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
  TlsOptions http_tls;       // of metrics too; --http-use-ssl, which --http-use-ssl-mutual sets as well
  std::string http_header_forward_pattern;
  std::vector<std::string> http_restricted_apis;

  // gRPC
  bool allow_grpc = true;
  GrpcServer::Options grpc;            // max_input_bytes as over HTTP
  TlsOptions grpc_tls;                 // --grpc-use-ssl, which --grpc-use-ssl-mutual sets as well
  std::string grpc_channel_arguments;  // as given; they are in `grpc`
  std::string grpc_header_forward_pattern;
  std::vector<std::string> grpc_restricted_protocols;

  // Users and rights
  AccessControl::Files access_files;  // --token-file, --policy-file
  std::string http_restricted_api_file;
  std::string grpc_restricted_protocol_file;
  std::string admin_address;  // of --admin-address ADDR:PORT; empty: no such listener
  uint16_t admin_port = 0;
  std::vector<Api> admin_apis = {Api::kModelRepository, Api::kTrace, Api::kLogging, Api::kMetrics};

  // Console
  bool allow_console = true;
  std::string fleet_endpoints;  // of the replicas that it shows; empty: none. See FleetView::check()
  std::string fleet_ca_file;    // by which their certificates are known; empty: the system's

  // Devices
  double min_supported_compute_capability = 6.0;
  GpuFallback gpu_fallback = GpuFallback::kNone;
  int64_t gpu_timeout_ms = 10000;
  // How much of a GPU's memory may be in use when a model is loaded on it, as a part of it.
  std::map<int, double> model_load_gpu_limit;

  // Shared memory of clients
  bool allow_client_shm = true;
  uint64_t client_shm_max_bytes = 0;  // 0: as much as the machine has memory

  // Metrics
  bool allow_metrics = true;
  std::string metrics_address;  // empty: --http-address
  int64_t metrics_port = 8002;
  bool allow_cpu_metrics = true;
  bool allow_gpu_metrics = true;
  int64_t metrics_interval_ms = 2000;
  bool counter_latencies = true;  // --metrics-config counter_latencies=BOOL
  bool summary_latencies = false;
  // Quantiles and their errors.
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

  // Not of the command line: what main() has read.
  Environment environment;
  // Of the program; null: the console has none.
  const FleetView* fleet_view = nullptr;

  // By option name without dashes. Options that are not here have their default.
  std::map<std::string, OptionOrigin, std::less<>> origins;

  // What --admin-address serves: what changes and shows the server. Not what clients of models send, and
  // reflection is gRPC's.
  static bool AdminServes(Api api) {
    return api != Api::kInference && api != Api::kSharedMemory && api != Api::kReflection;
  }

  // At the port for management where there is one, else at that of metrics. Where metrics listen at another address than
  // HTTP, or there is no HTTP, it is there only when --allow-console is given: what the page needs, inference and
  // management among it, would be heard where it was not before.
  ConsolePlace console_place() const;

  // Whether every port that is open to clients, or shows what they do, is at a loopback address.
  bool loopback_only() const;
  // --allow-client-shm; as loopback_only() where it is not given, since other machines' clients share no memory with this one.
  bool takes_client_shm() const {
    return origin("allow-client-shm") == OptionOrigin::kDefault ? loopback_only() : allow_client_shm;
  }

  // Whether there is a config.json, or one model in its place.
  bool serves_config() const { return !config.config_path.empty() || !model_settings.empty(); }

  OptionOrigin origin(std::string_view option) const {
    auto found = origins.find(option);
    return found == origins.end() ? OptionOrigin::kDefault : found->second;
  }
};

struct CommandLine {
  // What to do: serve with `options`, or, when an exit code is set, print `out` and `err` to the two standard
  // streams and exit.
  std::optional<int> exit_code;
  std::string out;
  std::string err;

  ServerOptions options;
  // One sentence for each given option that is accepted and means nothing here; the log gets them once at
  // start.
  std::vector<std::string> notes;
};

// Reads the command line of `braid serve`, whose argv[1] is "serve". Never fails but through
// CommandLine::exit_code. `fleet_view` checks --fleet-endpoints, and goes into the options.
CommandLine ParseServe(int argc, const char* const* argv, const FleetView* fleet_view = nullptr);

}  // namespace braid
