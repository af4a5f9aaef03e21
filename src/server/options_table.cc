#include "server/options_table.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <limits>
#include <utility>
#include <vector>

#include <spdlog/fmt/fmt.h>

#include "protocols/http/gate.h"
#include "sequences/redis_url.h"
#include "sequences/state_store.h"
#include "server/latency_options.h"
#include "server/option_lines.h"
#include "server/options_address.h"
#include "server/options_ovms.h"
#include "server/options_trace.h"
#include "server/spin_control.h"

namespace braid {
namespace {

using namespace option_lines;

constexpr Choices<ControlMode> kControlModes = {
    {{"none", ControlMode::kNone}, {"poll", ControlMode::kPoll}, {"explicit", ControlMode::kExplicit}}};
constexpr Choices<WorkerStart> kWorkerStarts = {
    {{"fork", WorkerStart::kFork}, {"fresh", WorkerStart::kFresh}}};
constexpr Choices<ShareInstances> kShareInstances = {
    {{"off", ShareInstances::kOff}, {"auto", ShareInstances::kAuto}, {"on", ShareInstances::kOn}}};
constexpr Choices<StoreMode> kStoreModes = {
    {{"durable", StoreMode::kDurable}, {"behind", StoreMode::kBehind}, {"drain", StoreMode::kDrain}}};
constexpr Choices<StoreAway> kStoreAways = {
    {{"refuse", StoreAway::kRefuse}, {"continue", StoreAway::kContinue}}};
constexpr Choices<LogFormat> kLogFormats = {
    {{"default", LogFormat::kDefault}, {"ISO8601", LogFormat::kIso8601}}};
constexpr Choices<GrpcServer::Compression> kGrpcCompressions = {{{"none", GrpcServer::Compression::kNone},
                                                                 {"low", GrpcServer::Compression::kLow},
                                                                 {"medium", GrpcServer::Compression::kMedium},
                                                                 {"high", GrpcServer::Compression::kHigh}}};

constexpr Choices<RateLimitMode> kRateLimitModes = {
    {{"off", RateLimitMode::kOff}, {"execution_count", RateLimitMode::kExecutionCount}}};

constexpr Choices<GpuFallback> kGpuFallbacks = {{{"none", GpuFallback::kNone}, {"cpu", GpuFallback::kCpu}}};

// ---- options with a special format ----

Status SetBackendSetting(ServerOptions& options, std::string_view text) {
  BackendSetting setting;
  size_t equals = text.find('=');
  size_t comma = text.find(',');
  if (equals == std::string_view::npos) {
    return InvalidArgumentError(fmt::format("'{}' must have the form BACKEND,KEY=VALUE", text));
  }
  if (comma < equals) {
    setting.backend = text.substr(0, comma);
    text.remove_prefix(comma + 1);
    equals -= comma + 1;
  }
  setting.key = text.substr(0, equals);
  setting.value = text.substr(equals + 1);
  if (setting.key.empty()) return InvalidArgumentError(fmt::format("'{}' has no setting name", text));
  if (setting.backend == "python" && setting.key == "stub-timeout-seconds") {
    auto seconds = ToNumber<int64_t>(setting.value, 1, 1000000000);
    if (!seconds.ok()) return seconds.status().WithPrefix("python,stub-timeout-seconds: ");
    options.workers.stub_timeout_seconds = *seconds;
  }
  options.backend_settings.push_back(std::move(setting));
  return OkStatus();
}

std::string ShowBackendSettings(const ServerOptions& options) {
  std::string text;
  for (const auto& [backend, key, value] : options.backend_settings) {
    text +=
        fmt::format("{}{}{}{}={}", text.empty() ? "" : " ", backend, backend.empty() ? "" : ",", key, value);
  }
  return text;
}

Status AddWorkerLimit(ServerOptions& options, std::string_view text) {
  BRAID_ASSIGN_OR_RETURN(WorkerLimit limit, ParseWorkerLimit(text));
  options.workers.worker_limits.push_back(std::move(limit));
  return OkStatus();
}

std::string ShowWorkerLimits(const ServerOptions& options) {
  std::string text;
  for (const WorkerLimit& limit : options.workers.worker_limits)
    text += fmt::format("{}{}={}", text.empty() ? "" : " ", limit.name, limit.value);
  return text;
}

Status AddIsolation(ServerOptions& options, std::string_view text) {
  return SetIsolation(options.workers.isolation, text);
}

std::string ShowIsolation(const ServerOptions& options) {
  const IsolationOptions& isolation = options.workers.isolation;
  std::string text(IsolationLevelName(isolation.level));
  for (const auto& [model, level] : isolation.models)
    text += fmt::format(" {}={}", model, IsolationLevelName(level));
  return text;
}

Status AddWorkerVariable(ServerOptions& options, std::string_view text) {
  if (text.empty() || text.find('=') != std::string_view::npos) {
    // The text after '=' may be a secret.
    return InvalidArgumentError(
        fmt::format("'{}' must be only a variable name; its value comes from the server's environment",
                    text.substr(0, text.find('='))));
  }
  options.workers.isolation.variables.emplace_back(text);
  return OkStatus();
}

std::string ShowWorkerVariables(const ServerOptions& options) {
  return fmt::format("{}", fmt::join(options.workers.isolation.variables, " "));
}

// Parses "PATH" or "PATH=write".
Status AddWorkerPath(ServerOptions& options, std::string_view text) {
  constexpr std::string_view kWrite = "=write";
  LandlockPath path{std::string(text), text.ends_with(kWrite)};
  if (path.writable) path.path.resize(text.size() - kWrite.size());
  if (!path.path.starts_with('/')) {
    return InvalidArgumentError(fmt::format("'{}' is not an absolute path", path.path));
  }
  options.workers.isolation.paths.push_back(std::move(path));
  return OkStatus();
}

std::string ShowWorkerPaths(const ServerOptions& options) {
  std::string text;
  for (const LandlockPath& path : options.workers.isolation.paths)
    text += fmt::format("{}{}{}", text.empty() ? "" : " ", path.path, path.writable ? "=write" : "");
  return text;
}

Status SetWorkerUsers(ServerOptions& options, std::string_view text) {
  const size_t dash = std::min(text.find('-'), text.size());
  IsolationOptions& isolation = options.workers.isolation;
  constexpr uint32_t kMost = 4294967293;  // the system reserves the last two ids
  BRAID_ASSIGN_OR_RETURN(const uint32_t first, ToNumber<uint32_t>(text.substr(0, dash), 1, kMost));
  BRAID_ASSIGN_OR_RETURN(
      const uint32_t last,
      ToNumber<uint32_t>(dash == text.size() ? text : text.substr(dash + 1), first, kMost));
  isolation.first_user_id = first;
  isolation.last_user_id = last;
  return OkStatus();
}

std::string ShowWorkerUsers(const ServerOptions& options) {
  return fmt::format("{}-{}", options.workers.isolation.first_user_id,
                     options.workers.isolation.last_user_id);
}

Status AddCgroupSetting(ServerOptions& options, std::string_view text) {
  BRAID_ASSIGN_OR_RETURN(CgroupSetting setting, ParseCgroupSetting(text));
  options.workers.isolation.cgroup_settings.push_back(std::move(setting));
  return OkStatus();
}

std::string ShowCgroupSettings(const ServerOptions& options) {
  std::string text;
  for (const CgroupSetting& setting : options.workers.isolation.cgroup_settings) {
    text += fmt::format("{}{}{}{}={}", text.empty() ? "" : " ", setting.model,
                        setting.model.empty() ? "" : "=", setting.file, setting.value);
  }
  return text;
}

Status SetIsolate(ServerOptions& options, std::string_view text) {
  BRAID_ASSIGN_OR_RETURN(options.isolate, ParseIsolatedParts(text));
  return OkStatus();
}

std::string ShowIsolate(const ServerOptions& options) { return NamesOf(options.isolate); }

// Parses "counter_latencies=true", also with the "{group}," prefix of newer Triton versions.
Status SetMetricsConfig(ServerOptions& options, std::string_view text) {
  std::string_view setting = text;
  if (const size_t comma = text.find(','); comma < text.find('=')) setting.remove_prefix(comma + 1);
  size_t equals = setting.find('=');
  if (equals == std::string_view::npos) {
    return InvalidArgumentError(fmt::format("'{}' must have the form KEY=VALUE", text));
  }
  std::string_view key = setting.substr(0, equals);
  std::string_view value = setting.substr(equals + 1);
  if (key == "summary_quantiles") {
    auto quantiles = ParseQuantiles(value);
    if (!quantiles.ok()) return quantiles.status().WithPrefix("summary_quantiles: ");
    options.summary_quantiles = std::move(quantiles).value();
    return OkStatus();
  }
  bool* const field = key == "counter_latencies"     ? &options.counter_latencies
                      : key == "summary_latencies"   ? &options.summary_latencies
                      : key == "histogram_latencies" ? &options.histogram_latencies
                                                     : nullptr;
  if (field == nullptr) {
    return InvalidArgumentError(fmt::format(
        "'{}' is not one of counter_latencies, summary_latencies, summary_quantiles, histogram_latencies",
        key));
  }
  auto on = ToBool(value);
  if (!on.ok()) return on.status().WithPrefix(fmt::format("{}: ", key));
  *field = *on;
  return OkStatus();
}

std::string ShowMetricsConfig(const ServerOptions& options) {
  std::string text = fmt::format("counter_latencies={}", options.counter_latencies);
  if (options.histogram_latencies) text += " histogram_latencies=true";
  if (!options.summary_latencies) return text;
  text += " summary_latencies=true summary_quantiles=";
  for (const auto& [quantile, error] : options.summary_quantiles) {
    text += fmt::format("{}{}:{}", text.ends_with('=') ? "" : ",", quantile, error);
  }
  return text;
}

Status SetCacheConfig(ServerOptions& options, std::string_view text) {
  const size_t comma = text.find(',');
  const size_t equals = text.find('=');
  if (comma == std::string_view::npos || equals == std::string_view::npos || equals < comma) {
    return InvalidArgumentError(fmt::format("'{}' must have the form CACHE,KEY=VALUE", text));
  }
  if (text.substr(0, comma) != "local") {
    return UnsupportedError(fmt::format("unknown cache '{}'; expected 'local'", text.substr(0, comma)));
  }
  const std::string_view key = text.substr(comma + 1, equals - comma - 1);
  if (key != "size")
    return UnsupportedError(fmt::format("unknown setting '{}' of the local cache; expected size", key));
  BRAID_ASSIGN_OR_RETURN(
      options.response_cache_bytes,
      ToNumber<uint64_t>(text.substr(equals + 1), 1, std::numeric_limits<uint64_t>::max()));
  return OkStatus();
}

std::string ShowCacheConfig(const ServerOptions& options) {
  return options.response_cache_bytes == 0 ? "" : fmt::format("local,size={}", options.response_cache_bytes);
}

Status SetResourceLimit(ServerOptions& options, std::string_view text) {
  BRAID_ASSIGN_OR_RETURN(ResourceLimit limit, ParseResourceLimit(text));
  options.rate_limit_resources.push_back(std::move(limit));
  return OkStatus();
}

std::string ShowResourceLimits(const ServerOptions& options) {
  std::string text;
  for (const auto& [name, count, device] : options.rate_limit_resources) {
    text += fmt::format("{}{}:{}", text.empty() ? "" : " ", name, count);
    if (device >= 0) text += fmt::format(":{}", device);
  }
  return text;
}

Status SetMaxInputSize(ServerOptions& options, std::string_view text) {
  BRAID_ASSIGN_OR_RETURN(int64_t bytes, ToNumber<int64_t>(text, std::numeric_limits<int64_t>::min(),
                                                          std::numeric_limits<int64_t>::max()));
  // The only text of the contract that is printed without a prefix.
  if (bytes <= 0) return InvalidArgumentError("Error: --http-max-input-size must be greater than 0.");
  options.http.max_input_bytes = static_cast<uint64_t>(bytes);
  return OkStatus();
}

Status SetMemoryMaxBytes(ServerOptions& options, std::string_view text) {
  // A reading thread holds a block or two, and requests need room besides.
  constexpr uint64_t kLeast = uint64_t{16} << 20;
  BRAID_ASSIGN_OR_RETURN(const auto bytes, ToNumber<uint64_t>(text, 0, std::numeric_limits<uint64_t>::max()));
  if (bytes != 0 && bytes < kLeast) {
    return InvalidArgumentError(fmt::format("{} is out of range, the minimum is {}", bytes, kLeast));
  }
  options.limits.memory_bytes = bytes;
  return OkStatus();
}

Status SetHeaderFields(ServerOptions& options, std::string_view text) {
  BRAID_ASSIGN_OR_RETURN(options.http.max_header_fields, ToNumber<size_t>(text, 16, size_t{1} << 20));
  options.grpc.max_metadata_fields = options.http.max_header_fields;
  return OkStatus();
}

Status SetBodyTimeout(ServerOptions& options, std::string_view text) {
  BRAID_ASSIGN_OR_RETURN(options.http.body_timeout_ms,
                         ToNumber<int>(text, 1, std::numeric_limits<int>::max()));
  options.grpc.message_timeout_ms = options.http.body_timeout_ms;
  return OkStatus();
}

Status AddOrigin(ServerOptions& options, std::string_view text) {
  if (!IsOrigin(text)) {
    return InvalidArgumentError(
        fmt::format("'{}' must have the form SCHEME://HOST[:PORT], or be null or *", text));
  }
  options.http.allowed_origins.emplace_back(text);
  return OkStatus();
}

Status AddHost(ServerOptions& options, std::string_view text) {
  if (text.empty() || text.find_first_of(":/[] ") != std::string_view::npos) {
    return InvalidArgumentError(fmt::format("'{}' must be a host name without a port", text));
  }
  options.http.allowed_hosts.emplace_back(text);
  return OkStatus();
}

template <TlsOptions O::*kTls>
Status SetMutualTls(ServerOptions& options, std::string_view text) {
  TlsOptions& tls = options.*kTls;
  BRAID_ASSIGN_OR_RETURN(tls.mutual, ToBool(text));
  if (tls.mutual) tls.use = true;
  return OkStatus();
}

Status SetAdminApis(ServerOptions& options, std::string_view text) {
  std::vector<Api> apis;
  while (!text.empty()) {
    const std::string_view name = text.substr(0, text.find(','));
    text.remove_prefix(std::min(name.size() + 1, text.size()));
    const auto api = ApiFromName(name);
    if (!api) return InvalidArgumentError(fmt::format("unknown API '{}'", name));
    if (!ServerOptions::AdminServes(*api)) {
      return InvalidArgumentError(fmt::format("the API '{}' is not available at --admin-address", name));
    }
    apis.push_back(*api);
  }
  options.admin_apis = std::move(apis);
  return OkStatus();
}

std::string ShowAdminApis(const ServerOptions& options) {
  std::string text;
  for (const Api api : options.admin_apis) text += fmt::format("{}{}", text.empty() ? "" : ",", ApiName(api));
  return text;
}

Status SetLeastCapability(ServerOptions& options, std::string_view text) {
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size() || !(number >= 0))
    return InvalidArgumentError(fmt::format("'{}' is not a compute capability such as 6.0", text));
  options.min_supported_compute_capability = number;
  return OkStatus();
}

// Parses "GPU:FRACTION".
Status SetLoadLimit(ServerOptions& options, std::string_view text) {
  const size_t colon = text.find(':');
  const std::string_view part = text.substr(colon == std::string_view::npos ? text.size() : colon + 1);
  double fraction = -1;
  const auto [end, error] = std::from_chars(part.data(), part.data() + part.size(), fraction);
  const auto gpu = ToNumber<int>(text.substr(0, colon), 0, std::numeric_limits<int>::max());
  if (!gpu.ok() || error != std::errc() || end != part.data() + part.size() ||
      !(fraction >= 0 && fraction <= 1))
    return InvalidArgumentError(fmt::format("'{}' must have the form GPU:FRACTION, such as 0:0.8", text));
  options.model_load_gpu_limit[*gpu] = fraction;
  return OkStatus();
}

// Parses "GPU:BYTES".
Status SetCudaPool(ServerOptions& options, std::string_view text) {
  const size_t colon = text.find(':');
  const auto gpu = ToNumber<int>(text.substr(0, colon), 0, std::numeric_limits<int>::max());
  const auto bytes =
      ToNumber<uint64_t>(text.substr(colon == std::string_view::npos ? text.size() : colon + 1), 0,
                         std::numeric_limits<uint64_t>::max());
  if (!gpu.ok() || !bytes.ok())
    return InvalidArgumentError(fmt::format("'{}' must have the form GPU:BYTES, such as 0:67108864", text));
  options.workers.cuda_pool_bytes[*gpu] = *bytes;
  return OkStatus();
}

std::string ShowCudaPools(const ServerOptions& options) {
  std::vector<std::string> pools;
  for (const auto& [gpu, bytes] : options.workers.cuda_pool_bytes)
    pools.push_back(fmt::format("{}:{}", gpu, bytes));
  return fmt::format("{}", fmt::join(pools, ","));
}

std::string ShowLoadLimits(const ServerOptions& options) {
  std::vector<std::string> limits;
  for (const auto& [gpu, fraction] : options.model_load_gpu_limit)
    limits.push_back(fmt::format("{}:{}", gpu, fraction));
  return fmt::format("{}", fmt::join(limits, ","));
}

Status SetSpin(ServerOptions& options, std::string_view text) {
  BRAID_ASSIGN_OR_RETURN(options.spin_us, SpinControl::Parse(text));
  return OkStatus();
}

std::string ShowSpin(const ServerOptions& options) {
  return options.spin_us == SpinControl::kAuto ? "auto" : std::to_string(options.spin_us);
}

using S = SequenceStoreOptions;
template <auto kMember>
constexpr FieldOfPart<&O::sequence_store, kMember> Store;

Status SetSequenceStore(ServerOptions& options, std::string_view text) {
  BRAID_RETURN_IF_ERROR(ParseRedisUrl(text).status());
  options.sequence_store.url = text;
  return OkStatus();
}

std::string ShowSequenceStore(const ServerOptions& options) { return options.sequence_store.url; }

Status SetFleetEndpoints(ServerOptions& options, std::string_view text) {
  if (options.fleet_view != nullptr) BRAID_RETURN_IF_ERROR(options.fleet_view->check(text));
  options.fleet_endpoints = text;
  return OkStatus();
}

std::string ShowFleetEndpoints(const ServerOptions& options) { return options.fleet_endpoints; }

constexpr std::string_view kNoSageMaker = "SageMaker routes are not supported";
constexpr std::string_view kNoVertex = "Vertex AI routes are not supported";
constexpr std::string_view kFalse = "false|0";

const OptionSpec kOptionTable[] = {
    // Models
    WorksMany(
        "model-repository", "DIR", Group::kModels, List<Folders<&F::model_repositories>>(),
        "A folder of models, or its URL in object storage (s3://, gs://, as://); also --model-store, or "
        "DIR as an argument"),
    Works(
        "model-cache-directory", "DIR", Group::kModels, Text<&O::model_cache_directory>(),
        "Folder for copies of models in object storage, which are removed at the end; by default $TMPDIR or "
        "/tmp"),
    Works("storage-timeout-secs", "N", Group::kModels, Int<&O::storage_timeout_secs, 1, 1000000>(),
          "Seconds without progress after which an access to object storage fails"),
    Works("model-control-mode", "MODE", Group::kModels, OneOf<Folders<&F::control_mode>, kControlModes>(),
          "Models to serve: none (all, loaded once at start), poll (all, with changes polled), explicit "
          "(those that --load-model or a client names)"),
    WorksMany("load-model", "NAME", Group::kModels, List<Folders<&F::startup_models>>(),
              "In explicit mode, a model to load at start; '*' alone for all"),
    Works("repository-poll-secs", "N", Group::kModels, Int<Folders<&F::poll_seconds>, 1, 1000000000>(),
          "In poll mode, seconds between two polls of the folders"),
    Works("allow-file-overrides", "", Group::kModels, Bool<Folders<&F::allow_file_overrides>>(),
          "In explicit mode, let load requests supply a model's files, and set its code, environment and "
          "isolation"),
    Works("allow-smaller-types", "", Group::kModels, Bool<&O::smaller_types>(),
          "Serve OpenVINO models with INT64, UINT64 or FP64 tensors, which its CPU device computes "
          "in INT32 and FP32"),
    Works("model-config-name", "NAME", Group::kModels, Text<Folders<&F::model_config_name>>(),
          "Read a model's configs/NAME.pbtxt instead of config.pbtxt where it exists"),
    Works("model-load-thread-count", "N", Group::kModels, Int<&O::model_load_thread_count, 1, 256>(),
          "Number of models to load in parallel"),
    Works("load-on-demand", "", Group::kModels, Bool<Folders<&F::on_demand>>(),
          "Load a model of the repository when a request asks for it; needs --model-control-mode=explicit"),
    Works("load-wait-ms", "MS", Group::kModels, Int<Folders<&F::load_wait_ms>, 1, 1000000000>(),
          "Longest time in milliseconds that a request waits for its model to be loaded on demand"),
    Works("models-memory-max-bytes", "BYTES", Group::kModels, Bytes<Folders<&F::models_memory_max_bytes>>(),
          "Limit on the memory of the models of the repository; idle models are unloaded to make room. 0: no "
          "limit. Needs --load-on-demand; for one model: parameter PINNED"),
    Works("model-load-retry-count", "N", Group::kModels, Int<Folders<&F::load_retry_count>, 0, 1000>(),
          "Number of immediate retries of a failed load"),
    Refused("model-namespacing", "", Group::kModels, CheckBool, "false", kFalse,
            "Allow models of the same name in several repositories", "model names are global here"),
    Works("disable-auto-complete-config", "", Group::kModels, Not<Folders<&F::auto_complete>>(),
          "Do not ask models to complete their configuration"),
    Works("strict-model-config", "", Group::kModels, Not<Folders<&F::auto_complete>>(),
          "The older name of --disable-auto-complete-config"),
    Works("watch", "", Group::kModels, Bool<&O::watch>(),
          "Reload models when their files are saved; for authors of models"),
    Works("exit-on-error", "", Group::kModels, Bool<&O::exit_on_error>(),
          "Exit when a model fails to load at start; with --watch the default is false"),
    Works("strict-readiness", "", Group::kModels, Bool<Folders<&F::strict_readiness>>(),
          "The server is ready only if all its models are ready"),
    Works("exit-timeout-secs", "N", Group::kModels, Int<&O::exit_timeout_secs, 0, 1000000000>(),
          "Seconds to wait at shutdown for requests in flight"),
    Works(
        "exit-notice-secs", "N", Group::kModels, Int<&O::exit_notice_secs, 0, 1000000000>(),
        "Seconds to keep serving at shutdown while reporting not ready, so that load balancers notice first"),
    Works("outage-wait-ms", "MS", Group::kModels, Int<&O::outage_wait_ms, 0, 1000000000>(),
          "Milliseconds that requests wait while their model has no running instance; 0: fail at once"),
    Works("sequence_state_path", "DIR", Group::kModels, Text<&O::sequence_state_path>(),
          "A folder that keeps sequences across restarts and reloads: those of stateful models, of implicit "
          "state, and of models that define save_sequence and load_sequence; also --sequence-state-path"),
    Works("sequence_state_interval_seconds", "N", Group::kModels,
          Int<&O::sequence_state_interval_seconds, 0, 1000000000>(),
          "Seconds between two saves of changed sequences; 0: save at the end only; also "
          "--sequence-state-interval-seconds"),
    Works("sequence_state_store", "URL", Group::kModels, {SetSequenceStore, ShowSequenceStore},
          "A Redis or Redis Cluster in which replicas share those sequences, so that any replica can "
          "continue them. URL is redis://[USER@]HOST:PORT/DB, rediss:// with TLS, unix:///PATH?db=DB, "
          "redis+sentinel://HOST:PORT,.../MASTER/DB or redis+cluster://HOST:PORT,...; also "
          "--sequence-state-store; the options below also accept dashes"),
    Works("sequence_state_store_mode", "MODE", Group::kModels, OneOf<Store<&S::mode>, kStoreModes>(),
          "When states are written to the store: durable (before a step is answered), behind (after it, see "
          "the lag), drain (when the model ends)"),
    Works("sequence_state_store_unavailable", "HOW", Group::kModels,
          OneOf<Store<&S::unavailable>, kStoreAways>(),
          "Steps while the store is unavailable: refuse, or continue (answer now, write later)"),
    Works("sequence_state_store_lag_ms", "MS", Group::kModels, Int<Store<&S::lag_ms>, 0, 1000000000>(),
          "In mode behind, the longest time in milliseconds without a confirmed write; after it, a step "
          "waits for the store"),
    Works("sequence_state_store_ttl_seconds", "N", Group::kModels,
          Int<Store<&S::ttl_seconds>, 1, 1000000000>(),
          "Seconds for which the store keeps a sequence after its last step"),
    Works("sequence_state_store_password_file", "FILE", Group::kModels, Text<Store<&S::password_file>>(),
          "A file with the password of the store; read for each connection"),
    Works("sequence_state_store_ca_file", "FILE", Group::kModels, Text<Store<&S::ca_file>>(),
          "CA certificates (PEM) to verify the store (default: the system's)"),
    Works("sequence_state_store_cert_file", "FILE", Group::kModels, Text<Store<&S::cert_file>>(),
          "The client certificate (PEM) for the store"),
    Works("sequence_state_store_key_file", "FILE", Group::kModels, Text<Store<&S::key_file>>(),
          "The key of that certificate (PEM)"),
    Works("sequence_state_store_connect_timeout_ms", "MS", Group::kModels,
          Int<Store<&S::connect_timeout_ms>, 1, 1000000>(),
          "Timeout in milliseconds for connecting to the store"),
    Works("sequence_state_store_timeout_ms", "MS", Group::kModels, Int<Store<&S::timeout_ms>, 1, 1000000>(),
          "Timeout in milliseconds for an answer from the store; then the server reconnects"),
    Works("sequence_drain_seconds", "N", Group::kModels, Int<&O::sequence_drain_seconds, 0, 1000000000>(),
          "Seconds to keep serving at shutdown, while reporting not ready, until every sequence has ended; "
          "also --sequence-drain-seconds"),
    Works("isolate", "PARTS", Group::kModels, {SetIsolate, ShowIsolate},
          "Native code to run in separate processes, so that a crash fails its requests and not the server; "
          "comma-separated: openvino, custom-nodes, images, calculators"),
    Works("image-max-pixels", "N", Group::kModels, Int<&O::image_max_pixels, 1, int64_t{1} << 40>(),
          "Limit of the total pixels of the encoded images in one request, before resizing"),
    Works("id", "NAME", Group::kModels, Text<&O::id>(), "The server's name in its metadata"),

    // Python
    Works("python", "PATH", Group::kPython, Text<Workers<&W::python>>(),
          "The interpreter for models without an environment (default: that of $VIRTUAL_ENV, else python3 "
          "on $PATH)"),
    Works(
        "debug-model", "NAME", Group::kPython, Text<Workers<&W::debugging, &Debugging::model>>(),
        "A Python model or graph that a debugger can attach to; its process has no limits and no isolation"),
    Works("debug-port", "PORT", Group::kPython, Int<Workers<&W::debugging, &Debugging::port>, 1, 65535>(),
          "The debugger's port on the loopback interface"),
    Works("debug-wait", "", Group::kPython, Bool<Workers<&W::debugging, &Debugging::wait>>(),
          "Whether the model of --debug-model waits for the debugger before it is imported"),
    Works("worker-start", "HOW", Group::kPython, OneOf<Workers<&W::worker_start>, kWorkerStarts>(),
          "How a model's process starts: fork (from a warm interpreter, fast) or fresh (a new interpreter "
          "each time)"),
    Works("share-instances", "HOW", Group::kPython,
          OneOf<Workers<&W::bounds, &Bounds::share_instances>, kShareInstances>(),
          "Whether a model's instances are forked after initialize() and share its memory: off, auto (if the "
          "process can be forked), on; for one model: parameter SHARE_INSTANCES"),
    Works(
        "spin-us", "US", Group::kPython, {SetSpin, ShowSpin},
        "Microseconds for which a Python model's process, and the thread that receives from it, poll before "
        "they sleep. auto: 100 while cores are idle"),
    Works("memory-keep-bytes", "BYTES", Group::kPython, Bytes<Workers<&W::memory_keep_bytes>>(),
          "Idle tensor memory that each model's process keeps mapped after a burst"),
    Works("execute-timeout-ms", "MS", Group::kPython,
          Int<Workers<&W::bounds, &Bounds::execute_timeout_ms>, 0, Bounds::kMostMs>(),
          "Longest time in milliseconds without an answer from execute(). Then its requests fail and its "
          "process restarts. 0: no limit; for one model: parameter EXECUTE_TIMEOUT_MS"),
    Works("initialize-timeout-ms", "MS", Group::kPython,
          Int<Workers<&W::bounds, &Bounds::initialize_timeout_ms>, 0, Bounds::kMostMs>(),
          "Longest time in milliseconds to import and initialize a Python model or a graph's nodes. 0: no "
          "limit; for one model: parameter INITIALIZE_TIMEOUT_MS"),
    Works("finalize-timeout-ms", "MS", Group::kPython,
          Int<Workers<&W::bounds, &Bounds::finalize_timeout_ms>, 0, Bounds::kMostMs>(),
          "Longest time in milliseconds for finalize(), at most --exit-timeout-secs. 0: only that limit; for "
          "one model: parameter FINALIZE_TIMEOUT_MS"),
    Works("worker-memory-max-bytes", "BYTES", Group::kPython,
          Bytes<Workers<&W::bounds, &Bounds::memory_max_bytes>>(),
          "Memory limit of one process of a Python model, with its part of shared memory. Beyond it, a fresh "
          "process takes over between two requests. 0: no limit; for one model: parameter "
          "WORKER_MEMORY_MAX_BYTES"),
    WorksMany("worker-rlimit", "NAME=N", Group::kPython, {AddWorkerLimit, ShowWorkerLimits},
              "A resource limit of each model's process: as, core, data, fsize (bytes) or nofile"),
    WorksMany(
        "worker-isolation", "[MODEL=]LEVEL", Group::kPython, {AddIsolation, ShowIsolation},
        "Isolation of a model's process from the server and the machine: none, basic, strict or separate"),
    WorksMany("worker-env", "NAME", Group::kPython, {AddWorkerVariable, ShowWorkerVariables},
              "A server environment variable to pass to processes of level strict or separate"),
    WorksMany("worker-path", "PATH[=write]", Group::kPython, {AddWorkerPath, ShowWorkerPaths},
              "A file or folder that processes of level strict or separate can also read, or write"),
    Works("worker-user-ids", "FIRST-LAST", Group::kPython, {SetWorkerUsers, ShowWorkerUsers},
          "The user ids of processes of level separate, one for each process"),
    Works("worker-cgroup", "FOLDER", Group::kPython,
          Text<Workers<&W::isolation, &IsolationOptions::cgroup>>(),
          "A cgroup v2 folder that the server owns; each model's process gets a control group in it"),
    WorksMany("worker-cgroup-limit", "[MODEL=]FILE=VALUE", Group::kPython,
              {AddCgroupSetting, ShowCgroupSettings},
              "A setting of these control groups: memory.max, memory.high, memory.swap.max, pids.max, "
              "cpu.max, cpu.weight"),
    Works("worker-shm-max-bytes", "BYTES", Group::kPython,
          Bytes<Workers<&W::worker_segments, &SegmentLimits::bytes>>(),
          "Limit of the shared memory that one model's process shares with the server; the server ends a "
          "process beyond it; 0: the machine's memory"),
    Works(
        "worker-shm-max-segments", "N", Group::kPython,
        Int<Workers<&W::worker_segments, &SegmentLimits::segments>, 1, 65536>(),
        "Limit of its segments; a tensor above 64 KiB takes a segment, and a file descriptor of the server"),
    Works("environment-max-bytes", "BYTES", Group::kPython, Bytes<Workers<&W::environment_max_bytes>>(),
          "Largest unpacked size of a packed environment (EXECUTION_ENV_PATH), in $TMPDIR or /tmp"),
    Works("backend-directory", "DIR", Group::kPython, Text<Folders<&F::backend_directory>>(),
          "Folder of Python backends: DIR/NAME/model.py"),
    WorksMany("backend-config", "B,K=V", Group::kPython, {SetBackendSetting, ShowBackendSettings},
              "A backend's setting; python,stub-timeout-seconds=N works, settings of shared-memory pools "
              "have no effect"),

    // HTTP
    Works("host", "ADDR", Group::kHttp, {SetHost, ShowHost},
          "The address for HTTP, gRPC and metrics; 127.0.0.1 for local clients only"),
    Works("unix-socket-mode", "MODE", Group::kHttp, {SetUnixSocketMode, ShowUnixSocketMode},
          "Permissions of Unix sockets' files, in octal; 0660 also lets the group of the server's user "
          "connect"),
    Works("allow-http", "", Group::kHttp, Bool<&O::allow_http>(), "Serve HTTP"),
    Works("http-address", "ADDR", Group::kHttp, Addresses<Http<&H::address>>(),
          "Comma-separated addresses that HTTP listens on: IP addresses, host names, and unix:PATH"),
    Works("http-port", "PORT", Group::kHttp, Int<Http<&H::port>, 0, 65535>(),
          "The port that HTTP listens on; 0 picks a free port"),
    Works("reuse-http-port", "", Group::kHttp, Bool<Http<&H::reuse_port>>(),
          "Share the port with other processes"),
    Works("http-thread-count", "N", Group::kHttp, Int<Http<&H::threads>, 0, 256>(),
          "Threads for HTTP; 0: half the number of cores"),
    Works("http-header-forward-pattern", "REGEX", Group::kHttp, Text<&O::http_header_forward_pattern>(),
          "Request headers to forward as request parameters"),
    WorksMany("http-restricted-api", "APIS:K=V", Group::kHttp, Secrets<&O::http_restricted_apis>(),
              "APIs that need header K with value V"),
    WorksMany("allow-origin", "ORIGIN", Group::kHttp, {AddOrigin, List<Http<&H::allowed_origins>>().show},
              "An origin whose browser pages may send POST requests, besides the server's own: "
              "SCHEME://HOST[:PORT], null, or * for all"),
    WorksMany("allow-host", "NAME", Group::kHttp, {AddHost, List<Http<&H::allowed_hosts>>().show},
              "On loopback addresses, a name to allow in the Host header, besides addresses and localhost; * "
              "for all"),
    Works("http-max-input-size", "BYTES", Group::kHttp,
          {SetMaxInputSize, Bytes<Http<&H::max_input_bytes>>().show},
          "The largest request body; default with a config.json: 1 GiB, or a quarter of the memory if less"),
    Works("http-max-header-size", "BYTES", Group::kHttp, Int<Http<&H::max_header_bytes>, 1024, 1 << 24>(),
          "Size limit of a request's headers"),
    Works("http-use-ssl", "", Group::kHttp, Bool<HttpTls<&TlsOptions::use>>(),
          "Serve HTTP and metrics over TLS"),
    Works("http-use-ssl-mutual", "", Group::kHttp,
          {SetMutualTls<&O::http_tls>, Bool<HttpTls<&TlsOptions::mutual>>().show},
          "Serve HTTP and metrics over TLS, only to clients with a certificate"),
    Works("http-server-cert", "FILE", Group::kHttp, Text<HttpTls<&TlsOptions::certificate_file>>(),
          "The server's certificate (PEM)"),
    Works("http-server-key", "FILE", Group::kHttp, Text<HttpTls<&TlsOptions::key_file>>(),
          "The server's private key (PEM)"),
    Works("http-root-cert", "FILE", Group::kHttp, Text<HttpTls<&TlsOptions::root_file>>(),
          "CA certificates to verify clients (PEM)"),
    Works("http-max-connection-idle", "MS", Group::kHttp, Int<Http<&H::max_connection_idle_ms>, 1>(),
          "Milliseconds without a request after which a connection is closed"),

    // gRPC
    Works("allow-grpc", "", Group::kGrpc, Bool<&O::allow_grpc>(), "Serve gRPC"),
    Works("grpc-address", "ADDR", Group::kGrpc, Addresses<Grpc<&G::address>>(),
          "Comma-separated addresses that gRPC listens on, as for HTTP"),
    Works("grpc-port", "PORT", Group::kGrpc, Int<Grpc<&G::port>, 0, 65535>(),
          "The port that gRPC listens on; 0 picks a free port"),
    Works("reuse-grpc-port", "", Group::kGrpc, Bool<Grpc<&G::reuse_port>>(),
          "Share the port with other processes"),
    Works("grpc-infer-thread-count", "N", Group::kGrpc, Int<Grpc<&G::infer_threads>, 0, 256>(),
          "Threads for gRPC; 0: half the number of cores"),
    Works("grpc-header-forward-pattern", "REGEX", Group::kGrpc, Text<&O::grpc_header_forward_pattern>(),
          "Request metadata to forward as request parameters"),
    WorksMany("grpc-restricted-protocol", "APIS:K=V", Group::kGrpc, Secrets<&O::grpc_restricted_protocols>(),
              "APIs that need metadata triton-grpc-protocol-K with value V"),
    Works("grpc-use-ssl", "", Group::kGrpc, Bool<GrpcTls<&TlsOptions::use>>(), "Serve gRPC over TLS"),
    Works("grpc-use-ssl-mutual", "", Group::kGrpc,
          {SetMutualTls<&O::grpc_tls>, Bool<GrpcTls<&TlsOptions::mutual>>().show},
          "Serve gRPC over TLS, only to clients with a certificate"),
    Works("grpc-server-cert", "FILE", Group::kGrpc, Text<GrpcTls<&TlsOptions::certificate_file>>(),
          "The server's certificate (PEM)"),
    Works("grpc-server-key", "FILE", Group::kGrpc, Text<GrpcTls<&TlsOptions::key_file>>(),
          "The server's private key (PEM)"),
    Works("grpc-root-cert", "FILE", Group::kGrpc, Text<GrpcTls<&TlsOptions::root_file>>(),
          "CA certificates to verify clients (PEM)"),
    Works("grpc-infer-response-compression-level", "LEVEL", Group::kGrpc,
          OneOf<Grpc<&G::infer_response_compression>, kGrpcCompressions>(),
          "Compression of inference responses: none, low, medium or high"),
    Works("grpc-max-input-size", "BYTES", Group::kGrpc,
          Int<Grpc<&G::max_input_bytes>, 1, kMostGrpcMessageBytes>(),
          "The largest message, after decompression; default with a config.json: 1 GiB, or a quarter of the "
          "memory if less"),
    Works("grpc-max-resets-per-second", "N", Group::kGrpc, Int<Grpc<&G::max_resets_per_second>, 1, 1000000>(),
          "Limit of reset calls per second on one connection, by the client and, counted separately, by "
          "HTTP/2 errors; bursts may have five times as many. Beyond it the connection is closed"),
    Works("grpc-max-concurrent-streams", "N", Group::kGrpc, Int<Grpc<&G::max_concurrent_streams>, 1>(),
          "Limit of open calls on one connection"),
    Works("grpc-max-metadata-size", "BYTES", Group::kGrpc, Int<Grpc<&G::max_metadata_bytes>, 1024>(),
          "Size limit of a call's metadata"),
    Works("grpc-keepalive-time", "MS", Group::kGrpc, Int<Grpc<&G::keepalive_time_ms>, 1>(),
          "Milliseconds without traffic after which the server pings a client"),
    Works("grpc-keepalive-timeout", "MS", Group::kGrpc, Int<Grpc<&G::keepalive_timeout_ms>, 1>(),
          "Milliseconds that the client has to answer the ping"),
    Works("grpc-keepalive-permit-without-calls", "", Group::kGrpc,
          Bool<Grpc<&G::keepalive_permit_without_calls>>(), "Ping also without open calls"),
    Works("grpc-http2-max-pings-without-data", "N", Group::kGrpc,
          Int<Grpc<&G::http2_max_pings_without_data>, 0>(),
          "Limit of pings in a row without data; 0: no limit"),
    Works("grpc-http2-min-recv-ping-interval-without-data", "MS", Group::kGrpc,
          Int<Grpc<&G::http2_min_recv_ping_interval_without_data_ms>, 0>(),
          "Least milliseconds between two pings of an idle client; an earlier ping is a strike"),
    Works("grpc-http2-max-ping-strikes", "N", Group::kGrpc, Int<Grpc<&G::http2_max_ping_strikes>, 0>(),
          "Ping strikes after which the connection is closed; 0: no limit"),
    Works("grpc-max-connection-idle", "MS", Group::kGrpc, Int<Grpc<&G::max_connection_idle_ms>, 0>(),
          "Milliseconds without a call after which a connection is asked to close; 0 for never"),
    Works("grpc-max-connection-age", "MS", Group::kGrpc, Int<Grpc<&G::max_connection_age_ms>, 0>(),
          "Milliseconds after which a connection is asked to close; 0 for never"),
    Works("grpc-max-connection-age-grace", "MS", Group::kGrpc,
          Int<Grpc<&G::max_connection_age_grace_ms>, 0>(),
          "Milliseconds that its calls then have to end; 0: no limit"),
    Ignored("grpc-infer-allocation-pool-size", "N", Group::kGrpc, CheckInt, "8",
            "Message objects kept for reuse", "inference calls are read in place, without message objects"),
    Ignored("grpc-max-response-pool-size", "N", Group::kGrpc, CheckInt, "", "Response objects kept for reuse",
            "responses are written in place, without message objects"),

    // Users and rights
    Works("token-file", "FILE", Group::kAccess, Text<AccessFiles<&A::tokens>>(),
          "Lines of an identity and its bearer token (or sha256: and its digest); reloaded on change. All "
          "requests except health then need such a token, or a client certificate"),
    Works("policy-file", "FILE", Group::kAccess, Text<AccessFiles<&A::policy>>(),
          "JSON that maps identities to the APIs and models that they may use; reloaded on change"),
    Works("http-restricted-api-file", "FILE", Group::kAccess, Text<&O::http_restricted_api_file>(),
          "Lines in the format of --http-restricted-api, to keep secrets off the command line"),
    Works("grpc-restricted-protocol-file", "FILE", Group::kAccess, Text<&O::grpc_restricted_protocol_file>(),
          "Lines in the format of --grpc-restricted-protocol"),
    Works("admin-address", "ADDR:PORT", Group::kAccess, {SetAdminAddress, ShowAdminAddress},
          "HTTP address for management, or unix:PATH: all APIs except inference and shared memory; "
          "port 0 picks a free port"),
    Works("admin-apis", "APIS", Group::kAccess, {SetAdminApis, ShowAdminApis},
          "The APIs that only --admin-address serves; the other ports refuse them"),

    Works("allow-console", "", Group::kAccess, Bool<&O::allow_console>(),
          "Serve the console, a web page, at /console/ of --admin-address, or else of the metrics port; if "
          "metrics and HTTP have different addresses, only with this option"),
    Works("fleet-endpoints", "WHERE", Group::kAccess, {SetFleetEndpoints, ShowFleetEndpoints},
          "The servers that the console shows as one fleet, in the format of braid fleet: "
          "HOST:GRPC:HTTP:METRICS,..., dns://NAME:GRPC:HTTP:METRICS or kubernetes://NAMESPACE/SERVICE"),
    Works("fleet-ca-file", "FILE", Group::kAccess, Text<&O::fleet_ca_file>(),
          "CA certificates (PEM) to verify these servers (default: the system's)"),

    // Metrics
    Works("allow-metrics", "", Group::kMetrics, Bool<&O::allow_metrics>(), "Serve metrics"),
    Works("metrics-address", "ADDR", Group::kMetrics, Addresses<&O::metrics_address>(),
          "Comma-separated addresses that metrics listen on (default: those of HTTP without Unix sockets)"),
    Works("metrics-port", "PORT", Group::kMetrics, Int<&O::metrics_port, 0, 65535>(),
          "The port that metrics listen on; 0 picks a free port"),
    Works("allow-cpu-metrics", "", Group::kMetrics, Bool<&O::allow_cpu_metrics>(),
          "Report the machine's CPU and memory"),
    Works("metrics-interval-ms", "MS", Group::kMetrics, Int<&O::metrics_interval_ms, 1, 1000000000>(),
          "Milliseconds between measurements of the machine"),
    WorksMany("metrics-config", "K=V", Group::kMetrics, {SetMetricsConfig, ShowMetricsConfig},
              "counter_latencies=false drops the latency counters; summary_latencies=true adds quantiles, "
              "which summary_quantiles=Q:ERROR,... names; histogram_latencies=true adds histograms of the "
              "time to the first response of decoupled models"),
    Works("allow-gpu-metrics", "", Group::kMetrics, Bool<&O::allow_gpu_metrics>(),
          "Report the machine's GPUs, if any"),

    // Log
    Works("log-verbose", "LEVEL", Group::kLog, Int<&O::log_verbose, 0, 1000>(),
          "Level of verbose log lines; 0: none"),
    Works("verbose-errors", "", Group::kLog, Bool<&O::verbose_errors>(),
          "Send clients the full error texts: paths of this machine, source lines, the last stderr line of a "
          "model's process. Otherwise only the log has them"),
    Works("log-info", "", Group::kLog, Bool<&O::log_info>(), "Log lines of level info"),
    Works("log-warning", "", Group::kLog, Bool<&O::log_warning>(), "Log lines of level warning"),
    Works("log-error", "", Group::kLog, Bool<&O::log_error>(), "Log lines of level error"),
    Works("log-format", "FORMAT", Group::kLog, OneOf<&O::log_format, kLogFormats>(),
          "Time format of log lines: default or ISO8601"),
    Works("log-file", "FILE", Group::kLog, Text<&O::log_file>(), "Log to a file instead of standard error"),

    // Trace
    WorksMany("trace-config", "[M,]K=V", Group::kTrace, {SetTraceConfig, ShowTraceConfig},
              "A setting of tracing: mode=triton|opentelemetry, level=OFF|TIMESTAMPS|TENSORS, rate=N, "
              "count=N. Mode triton: triton,file=FILE and triton,log-frequency=N. Mode opentelemetry: "
              "opentelemetry,K=V with url, resource=NAME=VALUE, bsp_max_queue_size, "
              "bsp_max_export_batch_size and bsp_schedule_delay (milliseconds)"),
    Works("trace-file", "FILE", Group::kTrace, {SetTrace<kTraceFile>, ShowTraceFile},
          "The older name of --trace-config triton,file=FILE"),
    WorksMany("trace-level", "LEVEL", Group::kTrace, {SetTrace<kTraceLevel>, ShowTraceLevel},
              "The older name of --trace-config level=LEVEL"),
    Works("trace-rate", "N", Group::kTrace, {SetTrace<kTraceRate>, ShowTraceRate},
          "Trace one request in N; 0: only requests that a client traces (mode opentelemetry)"),
    Works("trace-count", "N", Group::kTrace, {SetTrace<kTraceCount>, ShowTraceCount},
          "Number of traces to take; -1: no limit"),
    Works("trace-log-frequency", "N", Group::kTrace, {SetTrace<kTraceLogFrequency>, ShowTraceLogFrequency},
          "Traces per file FILE.0, FILE.1, ...; 0: all in FILE"),

    // Cache and limits
    WorksMany("cache-config", "C,K=V", Group::kCache, {SetCacheConfig, ShowCacheConfig},
              "The response cache: local,size=BYTES; models opt in with response_cache { enable: true }"),
    Ignored("cache-directory", "DIR", Group::kCache, CheckNothing, "", "Folder of cache libraries",
            "cache libraries are not supported"),
    Works("response-cache-byte-size", "BYTES", Group::kCache, Bytes<&O::response_cache_bytes>(),
          "The older name of --cache-config=local,size=BYTES; 0: no cache"),
    Works("rate-limit", "MODE", Group::kCache, OneOf<&O::rate_limit, kRateLimitModes>(),
          "off, or execution_count: instances run only with the resources of their rate_limiter"),
    WorksMany("rate-limit-resource", "R:N:D", Group::kCache, {SetResourceLimit, ShowResourceLimits},
              "Amount of a resource, on one device or on each; default: the most that one instance needs"),
    Works("allow-client-shm", "", Group::kCache,
          {Bool<&O::allow_client_shm>().set,
           [](const O& options) { return std::string(options.takes_client_shm() ? "true" : "false"); }},
          "Let clients pass tensors in files of /dev/shm; true by default if all ports are at loopback "
          "addresses"),
    Works("max-connections", "N", Group::kCache,
          Int<Limits<&ClientLimits::Options::connections, &ConnectionLimits::Options::most>, 1>(),
          "Limit of open client connections, over HTTP and gRPC together; more are closed at once"),
    Works("max-connections-per-address", "N", Group::kCache,
          Int<Limits<&ClientLimits::Options::connections, &ConnectionLimits::Options::most_per_address>, 1>(),
          "Limit of them from one address, one IPv6 /64 network, or one user over Unix sockets"),
    Works("memory-max-bytes", "BYTES", Group::kCache,
          {SetMemoryMaxBytes, Bytes<Limits<&ClientLimits::Options::memory_bytes>>().show},
          "Memory limit for clients: requests while they are read and run, and responses until they are "
          "sent; more are refused. 0: half of the memory of the machine or container"),
    Works("model-max-queued-bytes", "BYTES", Group::kCache, Bytes<&O::model_max_queued_bytes>(),
          "Limit of the inputs of waiting and running requests to one model, pipeline or graph; more are "
          "refused, but never a single request. 0: half of --memory-max-bytes"),
    Works("max-header-fields", "N", Group::kCache,
          {SetHeaderFields, Int<Http<&H::max_header_fields>, 16>().show},
          "Limit of header fields in a request, or in a gRPC call's metadata"),
    Works("request-body-timeout-ms", "MS", Group::kCache,
          {SetBodyTimeout, Int<Http<&H::body_timeout_ms>, 1>().show},
          "Milliseconds in which a body, or a gRPC message, must receive 64 KiB; otherwise its connection, "
          "or its call, ends"),
    Works("client-shm-max-bytes", "BYTES", Group::kCache, Bytes<&O::client_shm_max_bytes>(),
          "Limit of the shared memory that all clients can register; 0: the machine's memory"),
    Refused("repoagent-directory", "DIR", Group::kCache, CheckNothing, "", "", "Folder of repository agents",
            "repository agents are not supported; check and fetch models before they are loaded"),

    // Devices
    Works("pinned-memory-pool-byte-size", "BYTES", Group::kDevices, Bytes<Workers<&W::pinned_pool_bytes>>(),
          "Limit of the shared memory that the server, and each model's process, may pin, so that GPUs copy "
          "it directly; other copies are slower"),
    WorksMany("cuda-memory-pool-byte-size", "GPU:BYTES", Group::kDevices, {SetCudaPool, ShowCudaPools},
              "GPU memory that an idle model's process may keep for further outputs on that GPU; 67108864 "
              "for other GPUs"),
    Ignored("cuda-virtual-address-size", "GPU:BYTES", Group::kDevices, CheckNothing, "",
            "GPU address space kept", "address space is allocated on demand"),
    Works("min-supported-compute-capability", "N", Group::kDevices,
          {SetLeastCapability,
           [](const O& options) { return fmt::format("{:.1f}", options.min_supported_compute_capability); }},
          "The compute capability of the oldest GPU to use"),
    Ignored("buffer-manager-thread-count", "N", Group::kDevices, CheckInt, "0",
            "Threads that gather and scatter tensors",
            "tensors are not gathered; models read the memory of each request"),
    Ignored("host-policy", "P,K=V", Group::kDevices, CheckNothing, "",
            "CPU and NUMA placement of GPU instances", "the operating system places instances"),
    WorksMany("model-load-gpu-limit", "GPU:F", Group::kDevices, {SetLoadLimit, ShowLoadLimits},
              "Load no model on a GPU if more than this fraction of its memory is in use, 0.0 to 1.0"),
    Works("gpu-fallback", "WHERE", Group::kDevices, OneOf<&O::gpu_fallback, kGpuFallbacks>(),
          "Placement of KIND_GPU instances without their GPU: none (the model is refused), or cpu"),
    Works("gpu-timeout-ms", "MS", Group::kDevices, Int<&O::gpu_timeout_ms, 1, 1000000000>(),
          "Longest time in milliseconds to open, read or write a client's memory on a GPU. Then the request "
          "fails, and others fail at once until the GPU answers again"),
    Ignored("enable-peer-access", "", Group::kDevices, CheckBool, "true", "Let GPUs read each other's memory",
            "the server moves no tensors between GPUs"),

    // Other services' routes
    Refused("allow-sagemaker", "", Group::kHosting, CheckBool, "false", kFalse, "Serve SageMaker's routes",
            kNoSageMaker),
    Ignored("sagemaker-port", "PORT", Group::kHosting, CheckInt, "8080", "The port of those routes",
            kNoSageMaker),
    Ignored("sagemaker-safe-port-range", "A-B", Group::kHosting, CheckNothing, "",
            "Allowed ports of those routes", kNoSageMaker),
    Ignored("sagemaker-thread-count", "N", Group::kHosting, CheckInt, "8", "Threads of those routes",
            kNoSageMaker),
    Refused("allow-vertex-ai", "", Group::kHosting, CheckBool, "false", kFalse, "Serve Vertex AI's routes",
            kNoVertex),
    Ignored("vertex-ai-port", "PORT", Group::kHosting, CheckInt, "8080", "The port of those routes",
            kNoVertex),
    Ignored("vertex-ai-thread-count", "N", Group::kHosting, CheckInt, "8", "Threads of those routes",
            kNoVertex),
    Ignored("vertex-ai-default-model", "NAME", Group::kHosting, CheckNothing, "", "The model of those routes",
            kNoVertex),
};

}  // namespace

std::string OptionSpec::DefaultText() const {
  return show ? show(ServerOptions{}) : std::string(fixed_default);
}

std::span<const OptionSpec> OptionTable() {
  static const std::vector<OptionSpec> table = [] {
    std::vector<OptionSpec> all(std::begin(kOptionTable), std::end(kOptionTable));
    const std::span<const OptionSpec> more = OvmsOptionTable();
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }();
  return table;
}

const OptionSpec* FindOption(std::string_view name) {
  static constexpr std::pair<std::string_view, std::string_view> kSecondNames[] = {
      {"model-store", "model-repository"},
      {"sequence-state-path", "sequence_state_path"},
      {"sequence-state-interval-seconds", "sequence_state_interval_seconds"},
      {"sequence-drain-seconds", "sequence_drain_seconds"}};
  for (const auto& [second, first] : kSecondNames) {
    if (name == second) name = first;
  }
  std::string with_underscores;
  if (name.starts_with("sequence-state-store")) {
    with_underscores = name;
    std::ranges::replace(with_underscores, '-', '_');
    name = with_underscores;
  }
  const std::span<const OptionSpec> table = OptionTable();
  const auto found = std::ranges::find(table, name, &OptionSpec::name);
  return found == table.end() ? nullptr : &*found;
}

std::string_view OptionGroupTitle(OptionGroup group) {
  switch (group) {
    case OptionGroup::kModels:
      return "Models";
    case OptionGroup::kPython:
      return "Python";
    case OptionGroup::kHttp:
      return "Addresses and HTTP";
    case OptionGroup::kGrpc:
      return "gRPC";
    case OptionGroup::kAccess:
      return "Users and rights";
    case OptionGroup::kMetrics:
      return "Metrics";
    case OptionGroup::kLog:
      return "Log";
    case OptionGroup::kTrace:
      return "Tracing";
    case OptionGroup::kCache:
      return "Cache and limits";
    case OptionGroup::kDevices:
      return "Devices";
    case OptionGroup::kHosting:
      return "Other services' routes";
    case OptionGroup::kOvms:
      return "Options of OpenVINO Model Server";
  }
  return "";
}

}  // namespace braid
