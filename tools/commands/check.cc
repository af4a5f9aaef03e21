#include "commands/check.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <spdlog/fmt/fmt.h>

#include "base/log.h"
#include "base/nearest_name.h"
#include "base/unique_fd.h"
#include "check/checker.h"
#include "check/output.h"
#include "check/report.h"
#include "commands/fleet_view.h"
#include "server/environment.h"
#include "server/options.h"
#include "server/options_python.h"
#include "server/worker_directory.h"

namespace braid {
namespace {

constexpr int kCheckMisused = 2;
constexpr int64_t kLongestImport = 86400;

constexpr std::string_view kCheckUsage =
    "usage: braid check PATH... [OPTIONS] [OPTIONS OF braid serve]\n"
    "       braid check --help\n";

constexpr std::string_view kCheckHelp =
    "\n"
    "Checks whether models would load. Lists errors in their files with fixes, refused settings,\n"
    "settings without effect, and differences from Triton or OpenVINO Model Server. Serves nothing.\n"
    "\n"
    "A PATH is a model repository, the folder of a model, a config.pbtxt, a config.json, a subconfig.json, "
    "a\n"
    "graph.pbtxt, or a folder with any of these below it. Repositories are checked together, as one "
    "server's.\n"
    "\n"
    "options:\n"
    "  --format text|json|github|markdown\n"
    "                                    how findings are written [text]. github: workflow commands;\n"
    "                                    markdown: only with --report\n"
    "  --report                          \"can I move?\": models that work unchanged, that need a change, "
    "and\n"
    "                                    that cannot be served\n"
    "  --strict                          exit with 1 for notes and differences, too\n"
    "  --import                          import Python models and handlers of graphs, each in a separate\n"
    "                                    process without a network, and open libraries of custom nodes\n"
    "  --import-timeout-seconds N        how long an import may take [60]\n"
    "\n"
    "Options of braid serve have the same meaning, so the files are checked as that server would load\n"
    "them: --model-config-name, --disable-auto-complete-config, --backend-directory, --python,\n"
    "--cpu_extension, --calculator-library, --rate-limit, --cache-config, --config_path ... (braid serve "
    "--help)\n"
    "\n"
    "exit codes: 0 all would load; 1 something would not; 2 usage error\n"
    "\n"
    "examples:\n"
    "  braid check examples/models\n"
    "  braid check models --import --format=json\n"
    "  braid check --report --format=markdown /opt/ovms > report.md\n";

// The parsed command line.
struct CheckLine {
  std::string format = "text";
  bool report = false;
  bool strict = false;
  bool help = false;
  check::ImportOptions import;
  // Options for `braid serve`.
  std::vector<const char*> rest;
};

int Misuse(std::string_view message) {
  std::cerr << "braid check: " << message << '\n' << kCheckUsage;
  return kCheckMisused;
}

// Parses the options that only `braid check` has. Errors: INVALID_ARGUMENT.
Status TakeCheckOptions(int argc, const char* const* argv, CheckLine& line) {
  line.rest = {argv[0], "serve"};
  bool options_end = false;
  for (int i = 2; i < argc; ++i) {
    const std::string_view word = argv[i];
    const size_t equals = word.find('=');
    const std::string_view name = word.substr(0, equals);
    // "--name=value", or "--name value".
    const auto value = [&]() -> std::optional<std::string_view> {
      if (equals != std::string_view::npos) return word.substr(equals + 1);
      if (i + 1 == argc) return std::nullopt;
      return argv[++i];
    };
    bool* flag = nullptr;
    if (!options_end) {
      if (name == "--report") flag = &line.report;
      if (name == "--strict") flag = &line.strict;
      if (name == "--import") flag = &line.import.enabled;
      if (name == "--help" || name == "-h") flag = &line.help;
    }
    if (flag != nullptr) {
      if (equals != std::string_view::npos)
        return InvalidArgumentError(fmt::format("{} takes no value", name));
      *flag = true;
    } else if (!options_end && name == "--format") {
      line.format = value().value_or("");
      if (line.format != "text" && line.format != "json" && line.format != "github" &&
          line.format != "markdown") {
        return InvalidArgumentError("--format: expected text, json, github or markdown, not '" + line.format +
                                    "'");
      }
    } else if (!options_end && name == "--import-timeout-seconds") {
      const std::string_view text = value().value_or("");
      int64_t& seconds = line.import.timeout_seconds;
      const auto [stop, fault] = std::from_chars(text.data(), text.data() + text.size(), seconds);
      if (fault != std::errc() || stop != text.data() + text.size() || seconds < 1 ||
          seconds > kLongestImport) {
        return InvalidArgumentError(
            fmt::format("--import-timeout-seconds: expected a whole number from 1 to {}, not '{}'",
                        kLongestImport, text));
      }
    } else {
      options_end = options_end || word == "--";
      line.rest.push_back(argv[i]);
    }
  }
  if (line.format == "markdown" && !line.report) {
    return InvalidArgumentError("--format=markdown needs --report");
  }
  if (line.format == "github" && line.report) {
    return InvalidArgumentError("--report needs --format=text, markdown or json");
  }
  return OkStatus();
}

// Prints the first line of an error of the parser of `braid serve` as an error of this command.
int MisuseOptions(const CommandLine& options) {
  if (options.exit_code == 0) return Misuse("--print-config and --help-markdown are for braid serve");
  std::string message = options.err.substr(0, options.err.find('\n'));
  for (const std::string_view head : {"braid serve: ", "Error: "}) {
    if (message.starts_with(head)) message.erase(0, head.size());
  }
  std::string meant;
  if (constexpr std::string_view kUnknown = "unknown option '"; message.starts_with(kUnknown)) {
    NearestName nearest(std::string_view(message).substr(
        kUnknown.size(), message.find_first_of("'=", kUnknown.size()) - kUnknown.size()));
    for (const char* name : {"--format", "--report", "--strict", "--import", "--import-timeout-seconds"}) {
      nearest.Offer(name);
    }
    if (!nearest.name().empty() && message.find("did you mean") == std::string::npos)
      meant = "; did you mean " + nearest.name() + "?";
  }
  return Misuse(message + meant);
}

// Redirects standard output to standard error during its lifetime: users' libraries may print, and standard
// output is for the report.
class LibrariesPrintElsewhere {
 public:
  LibrariesPrintElsewhere() : output_(::fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 0)) {
    if (output_.valid()) ::dup2(STDERR_FILENO, STDOUT_FILENO);
  }
  ~LibrariesPrintElsewhere() {
    std::cout.flush();
    std::fflush(nullptr);
    if (output_.valid()) ::dup2(output_.get(), STDOUT_FILENO);
  }
  LibrariesPrintElsewhere(const LibrariesPrintElsewhere&) = delete;
  LibrariesPrintElsewhere& operator=(const LibrariesPrintElsewhere&) = delete;

 private:
  const UniqueFd output_;
};

Result<check::CheckResult> CheckQuietly(const check::CheckRequest& request) {
  const LibrariesPrintElsewhere elsewhere;
  return check::Check(request);
}

int CheckFiles(const CheckLine& line, const ServerOptions& options) {
  check::CheckRequest request;
  request.paths = options.folders.model_repositories;
  request.server = options;
  request.import = line.import;
  if (line.import.enabled) {
    auto python = ResolvePython(options);
    auto worker = FindWorkerDirectory();
    for (const Status& status : {python.status(), worker.status()}) {
      if (!status.ok()) return Misuse(status.message());
    }
    request.import.python = python->path;
    request.import.worker_directory = *worker;
  }
  const auto result = CheckQuietly(request);
  if (!result.ok()) return Misuse(EscapeForLog(result.status().message()));
  if (line.format == "json") {
    std::cout << check::AsJson(*result);
  } else if (line.report) {
    std::cout << check::MovingReport(*result, line.format == "markdown");
  } else if (line.format == "github") {
    std::cout << check::AsGithub(*result);
  } else {
    const bool color = isatty(STDOUT_FILENO) == 1 && std::getenv("NO_COLOR") == nullptr;
    std::cout << check::AsText(*result, color);
  }
  std::cout.flush();
  const bool bad = result->findings.blocks() || (line.strict && !result->findings.all().empty());
  return bad ? 1 : 0;
}

}  // namespace

int RunCheck(int argc, const char* const* argv) {
  CheckLine line;
  if (Status taken = TakeCheckOptions(argc, argv, line); !taken.ok()) return Misuse(taken.message());
  if (line.help) {
    std::cout << kCheckUsage << kCheckHelp;
    return 0;
  }
  if (line.rest.size() == 2) return Misuse("no path is given");
  CommandLine options = ParseServe(static_cast<int>(line.rest.size()), line.rest.data(), &kFleetView);
  if (options.exit_code) return MisuseOptions(options);
  if (options.options.serves_config() && options.options.config.config_path.empty()) {
    return Misuse("--model_name and --model_path are for braid serve; name the model's folder as PATH");
  }
  std::signal(SIGPIPE, SIG_IGN);
  options.options.environment = ReadEnvironment();
  return CheckFiles(line, options.options);
}

}  // namespace braid
