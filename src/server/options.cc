#include "server/options.h"

#include <sysexits.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <set>
#include <system_error>
#include <utility>

#include <spdlog/fmt/fmt.h>

#include "base/status.h"
#include "base/utf8.h"
#include "config/storage_url.h"
#include "protocols/net/listening_socket.h"
#include "server/options_address.h"
#include "server/options_ovms.h"
#include "server/options_table.h"
#include "server/options_text.h"

namespace braid {
namespace {

bool LooksBoolean(std::string_view text) {
  return text == "true" || text == "false" || text == "1" || text == "0" || text == "TRUE" ||
         text == "FALSE" || text == "True" || text == "False";
}

// Normalises the known long options to exactly one value in a separate argument: splits `--flag=value`, and
// adds "true" to a boolean without a value. A boolean takes the next argument only if that is a boolean, so
// `--exit-on-error models/` keeps its folder. CLI11 does the rest.
std::vector<std::string> Normalised(int argc, const char* const* argv) {
  std::vector<std::string> words;
  for (int i = 2; i < argc; ++i) {
    std::string_view word = argv[i];
    if (word == "--") {
      words.insert(words.end(), argv + i, argv + argc);
      break;
    }
    size_t equals = word.find('=');
    const OptionSpec* spec = word.starts_with("--") ? FindOption(word.substr(2, equals - 2)) : nullptr;
    if (!spec) {
      words.emplace_back(word);
      continue;
    }
    words.push_back("--" + std::string(spec->name));
    if (equals != std::string_view::npos) {
      words.emplace_back(word.substr(equals + 1));
    } else if (spec->is_boolean()) {
      words.emplace_back(i + 1 < argc && LooksBoolean(argv[i + 1]) ? argv[++i] : "true");
    } else if (i + 1 < argc) {
      words.emplace_back(argv[++i]);
    }
  }
  return words;
}

bool IsInert(const OptionSpec& spec, std::string_view text) {
  std::string_view rest = spec.inert;
  while (!rest.empty()) {
    size_t bar = std::min(rest.find('|'), rest.size());
    if (text == rest.substr(0, bar)) return true;
    rest.remove_prefix(std::min(bar + 1, rest.size()));
  }
  return false;
}

// Adds one given option to `line`.
Status Take(const OptionSpec& spec, std::string_view text, CommandLine& line) {
  if (Status set = spec.set(line.options, text); !set.ok()) {
    return set.message().starts_with("Error: ") ? set : set.WithPrefix(fmt::format("--{}: ", spec.name));
  }
  line.options.origins[std::string(spec.name)] = OptionOrigin::kCommandLine;
  if (spec.support == OptionSupport::kRefused && !IsInert(spec, text)) {
    return UnsupportedError(fmt::format("--{}{}{} is refused: {}", spec.name, spec.is_boolean() ? "" : "=",
                                        spec.is_boolean() ? "" : text, spec.reason));
  }
  if (spec.support == OptionSupport::kIgnored) {
    std::string note = fmt::format("--{} has no effect: {}", spec.name, spec.reason);
    if (std::ranges::find(line.notes, note) == line.notes.end()) line.notes.push_back(std::move(note));
  }
  return OkStatus();
}

// Notes backend settings that are accepted only for existing start scripts.
void NoteBackendSettings(CommandLine& line) {
  static constexpr std::string_view kPool[] = {"shm-default-byte-size", "shm-growth-byte-size",
                                               "shm-region-prefix-name", "shm_message_queue_size",
                                               "thread-pool-size"};
  for (const auto& [backend, key, value] : line.options.backend_settings) {
    std::string why;
    if (backend.empty()) {
      why = "settings for all backends are not supported";
    } else if (backend != "python") {
      why = fmt::format("backend '{}' has no settings", backend);
    } else if (std::ranges::find(kPool, key) != std::end(kPool)) {
      why = "memory has no fixed-size pool";
    } else if (key != "stub-timeout-seconds") {
      why = "unknown setting";
    }
    if (!why.empty()) {
      line.notes.push_back(fmt::format("--backend-config={}{}{} has no effect: {}", backend,
                                       backend.empty() ? "" : ",", key, why));
    }
  }
}

// `protocol`: the prefix of the options.
Status CheckTls(const TlsOptions& tls, std::string_view protocol) {
  if (tls.use && (tls.certificate_file.empty() || tls.key_file.empty())) {
    return InvalidArgumentError(
        fmt::format("--{0}-use-ssl needs --{0}-server-cert and --{0}-server-key", protocol));
  }
  if (tls.mutual && tls.root_file.empty()) {
    return InvalidArgumentError(fmt::format("--{0}-use-ssl-mutual needs --{0}-root-cert", protocol));
  }
  return OkStatus();
}

Status CheckSequenceStore(const ServerOptions& options) {
  const SequenceStoreOptions& store = options.sequence_store;
  constexpr std::string_view kName = "sequence_state_store";
  if (store.url.empty()) {
    for (const auto& [name, origin] : options.origins) {
      if (name.starts_with(kName)) return InvalidArgumentError(fmt::format("--{} needs --{}", name, kName));
    }
    return OkStatus();
  }
  if (!options.sequence_state_path.empty()) {
    return InvalidArgumentError("--sequence_state_store and --sequence_state_path cannot be set together");
  }
  if (store.mode != StoreMode::kBehind &&
      options.origin("sequence_state_store_lag_ms") != OptionOrigin::kDefault) {
    return InvalidArgumentError("--sequence_state_store_lag_ms needs --sequence_state_store_mode=behind");
  }
  const bool tls = !store.ca_file.empty() || !store.cert_file.empty() || !store.key_file.empty();
  if (tls && !store.url.starts_with("rediss")) {
    return InvalidArgumentError(
        "--sequence_state_store_ca_file, _cert_file and _key_file need TLS: "
        "--sequence_state_store=rediss://...");
  }
  if (store.cert_file.empty() != store.key_file.empty()) {
    return InvalidArgumentError(
        "--sequence_state_store_cert_file and --sequence_state_store_key_file must be set together");
  }
  return OkStatus();
}

Status CheckWatch(const ServerOptions& options) {
  if (!options.watch) return OkStatus();
  if (options.folders.control_mode == ControlMode::kPoll) {
    return InvalidArgumentError(
        "--watch reloads models when their files are saved, and --model-control-mode=poll at intervals; "
        "give one of them");
  }
  if (options.origin("file_system_poll_wait_seconds") != OptionOrigin::kDefault &&
      options.config.poll_seconds != 0) {
    return InvalidArgumentError(
        "--watch takes the place of --file_system_poll_wait_seconds; give one of them");
  }
  if (options.origin("watch-graph-files") != OptionOrigin::kDefault && !options.config.watch_graph_files) {
    return InvalidArgumentError("--watch includes --watch-graph-files; do not turn it off");
  }
  if (std::ranges::any_of(options.folders.model_repositories, IsUrl)) {
    return InvalidArgumentError(
        "--watch needs model repositories in local folders; for object storage use "
        "--model-control-mode=poll");
  }
  if (options.folders.on_demand) {
    return InvalidArgumentError("--watch and --load-on-demand cannot be set together");
  }
  return OkStatus();
}

// Checks combinations of options.
Status CheckTogether(const ServerOptions& options) {
  if (options.folders.model_repositories.empty() && !options.serves_config()) {
    return InvalidArgumentError(
        "no model repository given; pass a folder of models (braid serve MODELS_DIR) or a config.json (braid "
        "serve --config_path FILE)");
  }
  for (const std::string& repository : options.folders.model_repositories) {
    if (!IsUrl(repository)) continue;
    if (const auto url = ParseStorageUrl(repository); !url.ok())
      return url.status().WithPrefix("--model-repository: ");
  }
  if (const std::string& cache = options.model_cache_directory; !cache.empty()) {
    std::error_code fault;
    if (!std::filesystem::is_directory(cache, fault))
      return InvalidArgumentError(fmt::format("--model-cache-directory: '{}' is not a folder", cache));
  }
  const auto& startup = options.folders.startup_models;
  if (!startup.empty() && options.folders.control_mode != ControlMode::kExplicit) {
    return InvalidArgumentError("--load-model needs --model-control-mode=explicit");
  }
  const FolderOptions& folders = options.folders;
  if (folders.on_demand &&
      (folders.control_mode != ControlMode::kExplicit || folders.model_repositories.empty())) {
    return InvalidArgumentError(
        "--load-on-demand needs a model repository and --model-control-mode=explicit");
  }
  for (const char* option : {"load-wait-ms", "models-memory-max-bytes"}) {
    if (!folders.on_demand && options.origin(option) != OptionOrigin::kDefault)
      return InvalidArgumentError(fmt::format("--{} needs --load-on-demand", option));
  }
  BRAID_RETURN_IF_ERROR(CheckWatch(options));
  for (const char* option : {"debug-port", "debug-wait"}) {
    if (options.workers.debugging.model.empty() && options.origin(option) != OptionOrigin::kDefault)
      return InvalidArgumentError(fmt::format("--{} needs --debug-model", option));
  }
  if (startup.size() > 1 && std::ranges::find(startup, "*") != startup.end()) {
    return InvalidArgumentError(
        "Wildcard model name '*' must be the ONLY startup model if specified at all.");
  }
  if (options.sequence_state_path.empty() &&
      options.origin("sequence_state_path") != OptionOrigin::kDefault) {
    return InvalidArgumentError("--sequence_state_path must not be empty");
  }
  if (options.sequence_state_path.empty() &&
      options.origin("sequence_state_interval_seconds") != OptionOrigin::kDefault) {
    return InvalidArgumentError("--sequence_state_interval_seconds needs --sequence_state_path");
  }
  BRAID_RETURN_IF_ERROR(CheckSequenceStore(options));
  if (!options.allow_http && !options.allow_grpc) {
    return InvalidArgumentError("--allow-http and --allow-grpc are both off; at least one is needed");
  }
  BRAID_RETURN_IF_ERROR(CheckAddressesTogether(options));
  const TraceSettings& trace = options.trace.settings;
  if (trace.mode == "triton" && !trace.off() && trace.file.empty()) {
    return InvalidArgumentError(
        "tracing is on but has no file; set one with --trace-config triton,file=FILE");
  }
  if (options.admin_address.empty() && options.origin("admin-apis") != OptionOrigin::kDefault) {
    return InvalidArgumentError("--admin-apis needs --admin-address");
  }
  if (options.allow_console && options.origin("allow-console") != OptionOrigin::kDefault &&
      options.console_place() == ConsolePlace::kNone) {
    return InvalidArgumentError(
        "--allow-console needs a port: --admin-address=ADDR:PORT or --metrics-port=PORT");
  }
  if (!options.fleet_endpoints.empty() && options.console_place() == ConsolePlace::kNone) {
    return InvalidArgumentError("--fleet-endpoints needs the console, which is off");
  }
  if (!options.fleet_ca_file.empty() && (options.fleet_endpoints.empty() || !options.http_tls.use)) {
    return InvalidArgumentError("--fleet-ca-file needs --fleet-endpoints and --http-use-ssl");
  }
  // Triton accepts gRPC's options without --grpc-use-ssl, so they have no effect.
  if (const TlsOptions& http = options.http_tls; !http.use) {
    if (!http.certificate_file.empty() || !http.key_file.empty() || !http.root_file.empty()) {
      return InvalidArgumentError(
          "--http-server-cert, --http-server-key and --http-root-cert need --http-use-ssl");
    }
  }
  BRAID_RETURN_IF_ERROR(CheckTls(options.http_tls, "http"));
  return CheckTls(options.grpc_tls, "grpc");
}

CommandLine Print(std::string text) {
  CommandLine line;
  line.exit_code = 0;
  line.out = std::move(text);
  return line;
}

CommandLine FailToServe(std::string_view error) {
  const std::string message = WithoutCredentials(error);
  CommandLine line;
  line.exit_code = 1;
  // The contract's own "Error: " texts begin at the start of their line.
  line.err =
      fmt::format("{}{}\n{}", message.starts_with("Error: ") ? "" : "braid serve: ", message, ServeUsage());
  return line;
}

}  // namespace

CommandLine ParseServe(int argc, const char* const* argv, const FleetView* fleet_view) {
  CLI::App app;
  app.set_help_flag();
  app.allow_extras();
  bool help = false;
  bool help_all = false;
  bool markdown = false;
  bool print_config = false;
  app.add_flag("-h,--help", help);
  app.add_flag("--help-all", help_all);
  app.add_flag("--help-markdown", markdown);
  app.add_flag("--print-config", print_config);
  std::vector<std::pair<const OptionSpec*, CLI::Option*>> given;
  for (const OptionSpec& spec : OptionTable()) {
    CLI::Option* option = app.add_option("--" + std::string(spec.name));
    option->expected(1)->allow_extra_args(false)->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
    given.emplace_back(&spec, option);
  }

  std::vector<std::string> words = Normalised(argc, argv);
  std::ranges::reverse(words);  // CLI11 takes the last one first
  try {
    app.parse(std::move(words));
  } catch (const CLI::ArgumentMismatch&) {
    return FailToServe(fmt::format("{} needs a value", argv[argc - 1]));
  } catch (const CLI::Error& error) {
    return FailToServe(error.what());
  }
  if (help || help_all) return Print(ServeHelp(help_all));
  if (markdown) return Print(OptionsAsMarkdown());

  CommandLine line;
  line.options.fleet_view = fleet_view;
  for (const std::string& word : app.remaining()) {
    if (word == "--") continue;
    if (word.size() > 1 && word[0] == '-') {
      std::string_view name = std::string_view(word).substr(0, word.find('='));
      name.remove_prefix(std::min(name.find_first_not_of('-'), name.size()));
      if (const std::string_view why = WhyNoOvmsOption(name); !why.empty()) {
        return FailToServe(fmt::format("--{} of OpenVINO Model Server is not supported: {}", name, why));
      }
      std::string_view near = NearestOption(name);
      // The text after '=' may be a secret.
      return FailToServe(fmt::format("unknown option '{}'{}", word.substr(0, word.find('=')),
                                     near.empty() ? "" : fmt::format("; did you mean --{}?", near)));
    }
    line.options.folders.model_repositories.push_back(word);
    line.options.origins["model-repository"] = OptionOrigin::kCommandLine;
  }
  for (const auto& [spec, option] : given) {
    for (const std::string& text : option->results()) {
      if (Status taken = Take(*spec, text, line); !taken.ok()) return FailToServe(taken.message());
    }
  }
  Status together = CompleteOvmsOptions(line.options);
  if (together.ok()) together = CheckTogether(line.options);
  if (!together.ok()) {
    CommandLine failed = FailToServe(together.message());
    if (line.options.serves_config()) failed.exit_code = EX_USAGE;
    return failed;
  }
  NoteBackendSettings(line);
  NotePortsWithoutEffect(line);
  if (line.options.watch && line.options.origin("exit-on-error") == OptionOrigin::kDefault) {
    line.options.exit_on_error = false;
    line.options.origins["exit-on-error"] = OptionOrigin::kImplied;
  }
  if (print_config) return Print(ConfigText(line.options));
  return line;
}

std::string ServerOptions::metrics_addresses() const {
  return metrics_address.empty() ? WithoutUnixSockets(http.address) : metrics_address;
}

ConsolePlace ServerOptions::console_place() const {
  if (!allow_console) return ConsolePlace::kNone;
  if (!admin_address.empty()) return ConsolePlace::kAdminPort;
  if (!allow_metrics) return ConsolePlace::kNone;
  const std::vector<std::string> of_http = ListedAddresses(WithoutUnixSockets(http.address));
  const bool as_http = allow_http && ListedAddresses(metrics_addresses()) == of_http;
  return as_http || origin("allow-console") == OptionOrigin::kCommandLine ? ConsolePlace::kMetricsPort
                                                                          : ConsolePlace::kNone;
}

bool ServerOptions::loopback_only() const {
  const auto loopback = [](bool open, const std::string& address) { return !open || IsLoopback(address); };
  return loopback(allow_http, http.address) && loopback(allow_grpc, grpc.address) &&
         loopback(allow_metrics, metrics_addresses()) && loopback(!admin_address.empty(), admin_address);
}

}  // namespace braid
