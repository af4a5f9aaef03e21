#include "server/options_ovms.h"

#include <algorithm>
#include <string>

#include "config/ovms_config.h"
#include "server/memory_size.h"
#include "server/option_lines.h"

namespace braid {
namespace {

using namespace option_lines;

// ---- options with a special format ----

// A name as a template argument.
template <size_t kSize>
struct Name {
  constexpr Name(const char (&text)[kSize]) {
    std::copy_n(text, kSize, value);
  }  // NOLINT: a literal is a name
  char value[kSize] = {};
};

// A setting of the single model on the command line. ModelConfigFromOptions() parses its text together with
// the others.
template <Name kName>
constexpr Access ModelSetting() {
  return {[](ServerOptions& options, std::string_view text) {
            options.model_settings[kName.value] = std::string(text);
            return OkStatus();
          },
          [](const ServerOptions& options) {
            const auto found = options.model_settings.find(kName.value);
            return found == options.model_settings.end() ? std::string() : found->second;
          }};
}

// A port where 0 turns the protocol off.
template <auto kPort, auto kAllow, Name kOtherName>
constexpr Access PortOrOff() {
  return {[](ServerOptions& options, std::string_view text) {
            BRAID_ASSIGN_OR_RETURN(const int64_t port, ToNumber<int64_t>(text, 0, 65535));
            options.*kAllow = port != 0;
            if (port != 0) {
              Get<kPort>(options) = static_cast<std::remove_cvref_t<decltype(Get<kPort>(options))>>(port);
            }
            options.origins[kOtherName.value] = OptionOrigin::kImplied;
            return OkStatus();
          },
          [](const ServerOptions& options) {
            return options.origin(kOtherName.value) == OptionOrigin::kImplied && options.*kAllow
                       ? std::to_string(Get<kPort>(options))
                       : std::string("0");
          }};
}

// An address with a second name.
template <auto kAddress, Name kOtherName>
constexpr Access Address() {
  return {[](ServerOptions& options, std::string_view text) {
            BRAID_RETURN_IF_ERROR(Addresses<kAddress>().set(options, text));
            options.origins[kOtherName.value] = OptionOrigin::kCommandLine;
            return OkStatus();
          },
          Text<kAddress>().show};
}

Status SetLogLevel(ServerOptions& options, std::string_view text) {
  static constexpr std::string_view kLevels[] = {"ERROR", "WARNING", "INFO", "DEBUG", "TRACE"};
  const auto found = std::ranges::find(kLevels, text);
  if (found == std::end(kLevels)) {
    return InvalidArgumentError(fmt::format("'{}' is not one of {}", text, fmt::join(kLevels, ", ")));
  }
  const auto level = found - std::begin(kLevels);
  options.log_warning = level >= 1;
  options.log_info = level >= 2;
  options.log_verbose = level >= 4 ? 2 : level >= 3 ? 1 : 0;
  return OkStatus();
}

std::string ShowLogLevel(const ServerOptions& options) {
  if (options.log_verbose > 0) return options.log_verbose > 1 ? "TRACE" : "DEBUG";
  if (options.log_info) return "INFO";
  return options.log_warning ? "WARNING" : "ERROR";
}

// The gRPC channel arguments that Braid supports, by their names in gRPC.
struct ChannelArgument {
  std::string_view name;
  Status (*set)(ServerOptions&, std::string_view);
};

Status SetMaxMessage(ServerOptions& options, std::string_view text) {
  options.origins["grpc-max-input-size"] = OptionOrigin::kImplied;
  return Int<Grpc<&G::max_input_bytes>, 1, kMostGrpcMessageBytes>().set(options, text);
}

constexpr ChannelArgument kChannelArguments[] = {
    {"grpc.max_receive_message_length", SetMaxMessage},
    {"grpc.max_concurrent_streams", Int<Grpc<&G::max_concurrent_streams>, 1>().set},
    {"grpc.max_metadata_size", Int<Grpc<&G::max_metadata_bytes>, 1>().set},
    {"grpc.max_connection_idle_ms", Int<Grpc<&G::max_connection_idle_ms>, 0>().set},
    {"grpc.max_connection_age_ms", Int<Grpc<&G::max_connection_age_ms>, 0>().set},
    {"grpc.max_connection_age_grace_ms", Int<Grpc<&G::max_connection_age_grace_ms>, 0>().set},
    {"grpc.keepalive_time_ms", Int<Grpc<&G::keepalive_time_ms>, 1>().set},
    {"grpc.keepalive_timeout_ms", Int<Grpc<&G::keepalive_timeout_ms>, 1>().set},
    {"grpc.keepalive_permit_without_calls", Bool<Grpc<&G::keepalive_permit_without_calls>>().set},
    {"grpc.http2.max_pings_without_data", Int<Grpc<&G::http2_max_pings_without_data>, 0>().set},
    {"grpc.http2.min_ping_interval_without_data_ms",
     Int<Grpc<&G::http2_min_recv_ping_interval_without_data_ms>, 0>().set},
    {"grpc.http2.max_ping_strikes", Int<Grpc<&G::http2_max_ping_strikes>, 0>().set},
    {"grpc.so_reuseport", Bool<Grpc<&G::reuse_port>>().set},
};

Status SetChannelArguments(ServerOptions& options, std::string_view text) {
  options.grpc_channel_arguments = std::string(text);
  while (!text.empty()) {
    const size_t comma = std::min(text.find(','), text.size());
    const std::string_view one = text.substr(0, comma);
    const size_t equals = one.find('=');
    if (equals == std::string_view::npos || equals == 0) {
      return InvalidArgumentError(fmt::format("'{}' must have the form KEY=VALUE", one));
    }
    const auto found = std::ranges::find(kChannelArguments, one.substr(0, equals), &ChannelArgument::name);
    if (found == std::end(kChannelArguments)) {
      std::vector<std::string_view> names;
      for (const ChannelArgument& argument : kChannelArguments) names.push_back(argument.name);
      return InvalidArgumentError(fmt::format("'{}' is not a channel argument of this server; it has: {}",
                                              one.substr(0, equals), fmt::join(names, ", ")));
    }
    if (Status set = found->set(options, one.substr(equals + 1)); !set.ok()) {
      return InvalidArgumentError(fmt::format("{}: {}", found->name, set.message()));
    }
    text.remove_prefix(std::min(comma + 1, text.size()));
  }
  return OkStatus();
}

Status SetMetricsList(ServerOptions& options, std::string_view text) {
  while (!text.empty()) {
    const size_t comma = std::min(text.find(','), text.size());
    if (comma > 0) options.metrics_list.emplace_back(text.substr(0, comma));
    text.remove_prefix(std::min(comma + 1, text.size()));
  }
  return OkStatus();
}

constexpr std::string_view kCleanerMinutes = "sequence_cleaner_poll_wait_minutes";
constexpr std::string_view kCleanerSeconds = "sequence_cleaner_poll_wait_seconds";

Status SetCleanerMinutes(ServerOptions& options, std::string_view text) {
  BRAID_ASSIGN_OR_RETURN(const int64_t minutes, ToNumber<int64_t>(text, 0, 1000000000 / 60));
  options.sequence_cleaner_poll_wait_seconds = minutes * 60;
  return OkStatus();
}

std::string ShowCleanerMinutes(const ServerOptions& options) {
  return fmt::format("{:g}", static_cast<double>(options.sequence_cleaner_poll_wait_seconds) / 60);
}

constexpr std::string_view kEditConfig = "edit the config.json; the server reloads it when it changes";
constexpr std::string_view kNoCors = "add the headers in a proxy";

constexpr OptionSpec kTable[] = {
    Works("config_path", "FILE", Group::kOvms, Text<Config<&C::config_path>>(),
          "A config.json of models, pipelines and custom node libraries"),
    Works("model_name", "NAME", Group::kOvms, ModelSetting<"model_name">(),
          "Instead of a config.json: the name of a single model"),
    Works("model_path", "PATH", Group::kOvms, ModelSetting<"model_path">(),
          "The folder of its version folders, or a model file, which is version 1"),
    Works("port", "PORT", Group::kOvms, PortOrOff<Grpc<&G::port>, &O::allow_grpc, "grpc-port">(),
          "The port that gRPC listens on; 0: gRPC is off"),
    Works("rest_port", "PORT", Group::kOvms, PortOrOff<Http<&H::port>, &O::allow_http, "http-port">(),
          "The port that REST listens on; 0: REST is off"),
    Works("grpc_bind_address", "ADDR", Group::kOvms, Address<Grpc<&G::address>, "grpc-address">(),
          "The same as --grpc-address"),
    Works("rest_bind_address", "ADDR", Group::kOvms, Address<Http<&H::address>, "http-address">(),
          "The same as --http-address"),
    Works("rest_workers", "N", Group::kOvms, Int<Http<&H::threads>, 0, 256>(),
          "The same as --http-thread-count"),
    Works("grpc_channel_arguments", "K=V,...", Group::kOvms,
          {SetChannelArguments, Text<&O::grpc_channel_arguments>().show},
          "gRPC channel arguments: grpc.max_receive_message_length, grpc.max_concurrent_streams, "
          "grpc.max_connection_age_ms and others with a separate option"),
    Works("file_system_poll_wait_seconds", "N", Group::kOvms, Int<Config<&C::poll_seconds>, 0, 1000000000>(),
          "Seconds between checks of the config.json and the version folders; 0: no checks"),
    Works("watch-graph-files", "", Group::kOvms, Bool<Config<&C::watch_graph_files>>(),
          "Also check graph.pbtxt and handler files, and reload a graph when one has changed"),
    WorksMany("calculator-library", "FILE", Group::kOvms, List<&O::calculator_libraries>(),
              "A calculator library for graphs"),
    Works("batch_size", "N", Group::kOvms, ModelSetting<"batch_size">(),
          "Single model: N, 'auto', a range N:M, -1 for any, 0 for the model's own"),
    Works("shape", "SHAPE", Group::kOvms, ModelSetting<"shape">(),
          "Single model: (1,3,224,224), 'auto', ranges N:M and -1 for dimensions, or JSON by input"),
    Works("layout", "LAYOUT", Group::kOvms, ModelSetting<"layout">(),
          "Single model: CLIENT:MODEL such as NHWC:NCHW, or JSON by tensor"),
    Works("precision", "TYPE", Group::kOvms, ModelSetting<"precision">(),
          "Single model: the type of its inputs such as FP32, or JSON by tensor"),
    Works("mean", "M", Group::kOvms, ModelSetting<"mean">(),
          "Single model: the mean to subtract from its input, one number or [r,g,b]"),
    Works("scale", "S", Group::kOvms, ModelSetting<"scale">(),
          "Single model: the divisor of its input, one number or [r,g,b]"),
    Works("color_format", "C:M", Group::kOvms, ModelSetting<"color_format">(),
          "Single model: the color order of the client and of the model, BGR:RGB"),
    Works("model_version_policy", "JSON", Group::kOvms, ModelSetting<"model_version_policy">(),
          R"(Single model: {"latest": {"num_versions": 1}}, {"all": {}} or {"specific": {"versions": [1]}})"),
    Works("nireq", "N", Group::kOvms, ModelSetting<"nireq">(),
          "Single model: the number of parallel inferences; 0: the device chooses"),
    Works("target_device", "DEVICE", Group::kOvms, ModelSetting<"target_device">(),
          "Single model: its device, by default CPU"),
    Works("plugin_config", "JSON", Group::kOvms, ModelSetting<"plugin_config">(),
          R"(Single model: properties of the device, {"PERFORMANCE_HINT": "LATENCY"})"),
    Works("stateful", "", Group::kOvms, ModelSetting<"stateful">(), "Single model: it is stateful"),
    Works("idle_sequence_cleanup", "", Group::kOvms, ModelSetting<"idle_sequence_cleanup">(),
          "Single stateful model: end idle sequences"),
    Works("low_latency_transformation", "", Group::kOvms, ModelSetting<"low_latency_transformation">(),
          "Single stateful model: unroll its loops"),
    Works("max_sequence_number", "N", Group::kOvms, ModelSetting<"max_sequence_number">(),
          "Single stateful model: limit of concurrent sequences"),
    Works(kCleanerMinutes, "N", Group::kOvms, {SetCleanerMinutes, ShowCleanerMinutes},
          "Minutes between two scans for idle sequences; a sequence that is idle in two scans ends; 0: no "
          "scans"),
    Works(kCleanerSeconds, "N", Group::kOvms, Int<&O::sequence_cleaner_poll_wait_seconds, 0, 1000000000>(),
          "The same in seconds"),
    Works("cache_dir", "DIR", Group::kOvms, Text<&O::cache_dir>(), "Folder for compiled models"),
    Works("cpu_extension", "FILE", Group::kOvms, Text<&O::cpu_extension>(),
          "A library with operators for OpenVINO's CPU device"),
    Works("metrics_enable", "", Group::kOvms, Bool<&O::metrics_enable>(), "Serve /metrics on the REST port"),
    Works("metrics_list", "NAMES", Group::kOvms, {SetMetricsList, List<&O::metrics_list>().show},
          "Names of the metrics to serve; by default a standard set"),
    Works("log_level", "LEVEL", Group::kOvms, {SetLogLevel, ShowLogLevel},
          "ERROR, WARNING, INFO, DEBUG or TRACE"),
    Works("log_path", "FILE", Group::kOvms, Text<&O::log_file>(), "The same as --log-file"),
    Ignored("grpc_workers", "N", Group::kOvms, CheckInt, "1", "gRPC servers",
            "one server uses several threads, see --grpc-infer-thread-count"),
    Ignored("grpc_max_threads", "N", Group::kOvms, CheckInt, "", "Threads of gRPC's pool",
            "calls use no thread pool, see --grpc-infer-thread-count"),
    Ignored("grpc_memory_quota", "BYTES", Group::kOvms, CheckInt, "", "Memory of gRPC's pool",
            "tensors are read directly into the models' memory"),
    Ignored("custom_node_resources_cleaner_interval_seconds", "N", Group::kOvms, CheckInt, "",
            "Seconds between checks for unused nodes",
            "a node's resources are released with the last request that uses them"),
    Refused("model_repository_path", "DIR", Group::kOvms, CheckNothing, "", "",
            "A folder to pull models into",
            "pulling models is not supported; set --model-repository to a folder of models"),
    Refused("list_models", "", Group::kOvms, CheckBool, "false", "false|0", "List a folder's models",
            "a running server lists its models: GET /v1/config"),
    Refused("add_to_config", "", Group::kOvms, CheckNothing, "", "false|0", "Add a model to a config.json",
            kEditConfig),
    Refused("remove_from_config", "", Group::kOvms, CheckNothing, "", "false|0",
            "Remove a model from a config.json", kEditConfig),
    Refused("allow_credentials", "", Group::kOvms, CheckBool, "false", "false|0",
            "Allow credentials of other origins", kNoCors),
    Refused("allowed_origins", "LIST", Group::kOvms, CheckNothing, "*", "*", "Origins of browsers' requests",
            kNoCors),
    Refused("allowed_methods", "LIST", Group::kOvms, CheckNothing, "*", "*", "Methods of browsers' requests",
            kNoCors),
    Refused("allowed_headers", "LIST", Group::kOvms, CheckNothing, "*", "*", "Headers of browsers' requests",
            kNoCors),
};

bool IsGiven(const ServerOptions& options, std::string_view name) {
  return options.origin(name) != OptionOrigin::kDefault;
}

}  // namespace

std::span<const OptionSpec> OvmsOptionTable() { return kTable; }

std::string_view WhyNoOvmsOption(std::string_view name) {
  static constexpr std::string_view kPull[] = {
      "pull",    "source_model",  "task",         "overwrite_models",         "weight-format",
      "vocoder", "gguf_filename", "source_loras", "extra_quantization_params"};
  static constexpr std::string_view kEngine[] = {"pipeline_type",
                                                 "max_num_seqs",
                                                 "max_num_batched_tokens",
                                                 "max_prompt_len",
                                                 "cache_size",
                                                 "kv_cache_precision",
                                                 "enable_prefix_caching",
                                                 "dynamic_split_fuse",
                                                 "draft_source_model",
                                                 "model_distribution_policy",
                                                 "reasoning_parser",
                                                 "tool_parser",
                                                 "enable_tool_guided_generation",
                                                 "num_streams",
                                                 "normalize",
                                                 "truncate",
                                                 "pooling",
                                                 "max_allowed_chunks",
                                                 "resolution",
                                                 "max_resolution",
                                                 "default_resolution",
                                                 "max_num_images_per_prompt",
                                                 "default_num_inference_steps",
                                                 "max_num_inference_steps",
                                                 "allowed_local_media_path",
                                                 "allowed_media_domains"};
  if (std::ranges::find(kPull, name) != std::end(kPull))
    return "pulling and converting models is not supported; set --model-repository to a folder of models";
  if (std::ranges::find(kEngine, name) != std::end(kEngine))
    return "it configures the generative engine of OpenVINO Model Server; use a Python model or a graph";
  if (name == "api_key_file") return "use --token-file";
  return "";
}

uint64_t DefaultConfigInputSize() { return std::min(uint64_t{1} << 30, MemorySize() / 4); }

Status CompleteOvmsOptions(ServerOptions& options) {
  if (!options.model_settings.empty()) {
    if (!options.config.config_path.empty()) {
      return InvalidArgumentError(
          fmt::format("--{} is a setting of a single model and cannot be combined with --config_path",
                      options.model_settings.begin()->first));
    }
    for (const char* name : {"model_name", "model_path"}) {
      if (!options.model_settings.contains(name)) {
        return InvalidArgumentError(
            fmt::format("--{} needs --{}", options.model_settings.begin()->first, name));
      }
    }
    // Only checks the texts; the loader makes the paths absolute.
    BRAID_RETURN_IF_ERROR(ModelConfigFromOptions(options.model_settings, "/").status());
  }
  if (IsGiven(options, kCleanerMinutes) && IsGiven(options, kCleanerSeconds)) {
    return InvalidArgumentError(fmt::format("--{} and --{} are the same setting; give one of them",
                                            kCleanerMinutes, kCleanerSeconds));
  }
  if (!options.serves_config()) {
    for (const std::string_view name : {kCleanerMinutes, kCleanerSeconds}) {
      if (IsGiven(options, name)) {
        return InvalidArgumentError(fmt::format(
            "--{} is for stateful models, and needs --config_path, or --model_name with --model_path", name));
      }
    }
    for (const char* name : {"watch-graph-files", "calculator-library"}) {
      if (IsGiven(options, name)) {
        return InvalidArgumentError(fmt::format(
            "--{} is for graphs, and needs --config_path, or --model_name with --model_path", name));
      }
    }
    return OkStatus();
  }
  if (!IsGiven(options, "http-max-input-size")) {
    options.http.max_input_bytes = DefaultConfigInputSize();
    options.origins["http-max-input-size"] = OptionOrigin::kImplied;
  }
  if (!IsGiven(options, "grpc-max-input-size")) {
    options.grpc.max_input_bytes = DefaultConfigInputSize();
    options.origins["grpc-max-input-size"] = OptionOrigin::kImplied;
  }
  // If only one protocol's port is given, by OpenVINO Model Server's name, only that protocol is enabled. A
  // Unix socket needs no port.
  if (IsGiven(options, "port") != IsGiven(options, "rest_port")) {
    if (!IsGiven(options, "port") && !IsGiven(options, "grpc-port") && !HasUnixSocket(options.grpc.address))
      options.allow_grpc = false;
    if (!IsGiven(options, "rest_port") && !IsGiven(options, "http-port") &&
        !HasUnixSocket(options.http.address))
      options.allow_http = false;
  }
  if (!options.allow_grpc && !options.allow_http) {
    return InvalidArgumentError("--port and --rest_port are both off; at least one is needed");
  }
  if (IsGiven(options, "metrics_list") && !options.metrics_enable) {
    return InvalidArgumentError("metrics_enable setting is missing, required when metrics_list is provided");
  }
  if (options.metrics_enable && !options.allow_http) {
    return InvalidArgumentError("Missing rest_port parameter in server CLI: --metrics_enable needs it");
  }
  // In this mode the REST port serves the metrics.
  if (options.folders.model_repositories.empty() && !IsGiven(options, "allow-metrics") &&
      !IsGiven(options, "metrics-port")) {
    options.allow_metrics = false;
  }
  if (options.folders.model_repositories.empty() && !IsGiven(options, "id"))
    options.id = "OpenVINO Model Server";
  return OkStatus();
}

}  // namespace braid
