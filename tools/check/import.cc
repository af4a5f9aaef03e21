#include "check/import.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstring>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "backends/python/environment.h"
#include "backends/python/environment_archive.h"
#include "base/clock.h"
#include "base/json.h"
#include "base/process_family.h"
#include "base/temporary_folder.h"
#include "base/unique_fd.h"
#include "isolation/start_program.h"

extern char** environ;

namespace braid::check {
namespace {

// Limit on each file that a process writes, including its output.
constexpr rlim_t kMostFileBytes = rlim_t{1} << 30;
constexpr int64_t kEndNs = 5'000 * kMillisecondNs;
// Time for a process past its limit to print its traceback.
constexpr int kLastWordsMs = 500;
constexpr size_t kMostAnswerBytes = size_t{64} << 20;

Result<UniqueFd> MemoryFile(const char* name, std::string_view content) {
  UniqueFd file(memfd_create(name, MFD_CLOEXEC));
  if (!file.valid()) return ErrnoError("memfd_create", errno);
  while (!content.empty()) {
    const ssize_t put = ::write(file.get(), content.data(), content.size());
    if (put < 0) return ErrnoError("write", errno);
    content.remove_prefix(static_cast<size_t>(put));
  }
  ::lseek(file.get(), 0, SEEK_SET);
  return file;
}

std::string ContentOf(const UniqueFd& file) {
  struct stat info {};
  if (::fstat(file.get(), &info) != 0) return {};
  std::string text(std::min(static_cast<size_t>(info.st_size), kMostAnswerBytes), '\0');
  const ssize_t got = ::pread(file.get(), text.data(), text.size(), 0);
  text.resize(got < 0 ? 0 : static_cast<size_t>(got));
  return text;
}

// The limit on a resource, or this process's own one if that is lower.
std::pair<int, rlimit> Limit(int resource, rlim_t value) {
  rlimit limit{};
  ::getrlimit(static_cast<__rlimit_resource>(resource), &limit);
  limit.rlim_max = std::min(limit.rlim_max, value);
  limit.rlim_cur = std::min(limit.rlim_cur, limit.rlim_max);
  return {resource, limit};
}

struct Run {
  bool timed_out = false;
  int wait_status = 0;
  std::string answer;
  std::string errors;
};

// Returns whether the process of a pidfd ended in time.
bool AwaitExit(const UniqueFd& process, int64_t timeout_ms) {
  const int64_t deadline = SteadyNowNs() + timeout_ms * kMillisecondNs;
  for (;;) {
    const int64_t left = deadline - SteadyNowNs();
    if (left <= 0) return false;
    pollfd end{process.get(), POLLIN, 0};
    const int got = ::poll(&end, 1, static_cast<int>(left / kMillisecondNs) + 1);
    if (got > 0) return true;
    if (got < 0 && errno != EINTR) return false;
  }
}

// Runs the program with descriptors 0 (request), 2 (errors) and 3 (answer). Kills it and all its descendants
// at the end.
Result<Run> Execute(std::vector<std::string> program, std::vector<std::string> variables,
                    std::string_view request, const ImportOptions& options) {
  BRAID_ASSIGN_OR_RETURN(const UniqueFd in, MemoryFile("request", request));
  BRAID_ASSIGN_OR_RETURN(const UniqueFd out, MemoryFile("answer", ""));
  BRAID_ASSIGN_OR_RETURN(const UniqueFd errors, MemoryFile("errors", ""));
  const UniqueFd null(::open("/dev/null", O_WRONLY | O_CLOEXEC));
  BRAID_ASSIGN_OR_RETURN(const ProcessFamily family, ProcessFamily::Prepare());
  ProgramStart start{.arguments = std::move(program),
                     .variables = std::move(variables),
                     .descriptors = {in.get(), null.get(), errors.get(), out.get()},
                     .limits = {family.limit(), Limit(RLIMIT_CORE, 0), Limit(RLIMIT_FSIZE, kMostFileBytes),
                                // CPU time exceeds wall time in a process with many threads.
                                Limit(RLIMIT_CPU, static_cast<rlim_t>(options.timeout_seconds * 64))},
                     // Code that opens a socket during import would also do so in a worker.
                     .no_network = true,
                     .ends_with_thread = true};
  if (options.memory_bytes > 0) start.limits.push_back(Limit(RLIMIT_DATA, options.memory_bytes));
  const auto pid = StartProgram(start);
  if (!pid.ok()) return pid.status().WithPrefix("cannot start the Python interpreter ");
  const UniqueFd process(static_cast<int>(::syscall(SYS_pidfd_open, *pid, 0)));
  const Status opened = process.valid() ? OkStatus() : ErrnoError("pidfd_open", errno);
  Run run;
  if (opened.ok()) {
    run.timed_out = !AwaitExit(process, options.timeout_seconds * 1000);
    if (run.timed_out) {
      ::kill(*pid, SIGUSR1);
      AwaitExit(process, kLastWordsMs);
    }
  }
  // The process stays a zombie until waitpid(), so its id is not reused.
  ::kill(*pid, SIGKILL);
  while (::waitpid(*pid, &run.wait_status, 0) < 0 && errno == EINTR) {
  }
  static_cast<void>(family.End(kEndNs));
  BRAID_RETURN_IF_ERROR(opened);
  run.answer = ContentOf(out);
  run.errors = ContentOf(errors);
  return run;
}

// Returns the innermost frame of a faulthandler trace: `  File "/m/1/model.py", line 7 in <module>`.
std::optional<CodePlace> PlaceInTrace(const std::string& errors, const std::string& file) {
  const std::string head = "File \"" + file + "\", line ";
  const size_t at = errors.find(head);
  if (at == std::string::npos) return std::nullopt;
  CodePlace place{file, 0};
  const char* begin = errors.data() + at + head.size();
  std::from_chars(begin, errors.data() + errors.size(), place.line);
  return place;
}

std::string LastLine(std::string text) {
  while (text.ends_with('\n')) text.pop_back();
  const size_t line = text.rfind('\n');
  return line == std::string::npos ? text : text.substr(line + 1);
}

// A folder with an environment's files; removes them at the end.
struct Environment {
  std::string folder;
  std::shared_ptr<TemporaryFolder> files;
};

Result<Environment> OpenEnvironment(const std::string& path) {
  struct stat info {};
  if (::stat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode)) return Environment{path, nullptr};
  const UniqueFd archive(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!archive.valid()) return ErrnoError("environment archive '" + path + "'", errno);
  Environment environment;
  const char* temporary = ::getenv("TMPDIR");
  BRAID_ASSIGN_OR_RETURN(environment.files,
                         TemporaryFolder::Create(temporary == nullptr ? "/tmp" : temporary, "braid-check-"));
  environment.folder = environment.files->path();
  const auto unpacked =
      UnpackArchive(archive.get(), environment.folder, {}, [](const UnpackProgress&) { return OkStatus(); });
  if (!unpacked.ok()) return unpacked.status().WithPrefix("environment archive '" + path + "': ");
  return environment;
}

// Validates the answer, because the imported file can write to its descriptor, too.
bool IsAnswer(const Json& answer) {
  if (!answer.is_object()) return false;
  const auto has = [&answer](const char* key, auto is) {
    const auto found = answer.find(key);
    return found == answer.end() || is(*found);
  };
  const auto is_text = [](const Json& value) { return value.is_string(); };
  return has("error", is_text) && has("file", is_text) &&
         has("line", [](const Json& value) { return value.is_number_integer(); });
}

Imported Judge(const Run& run, const ImportRequest& request, const ImportOptions& options) {
  Imported imported;
  const auto answer = ParseJson(run.answer);
  if (!run.timed_out && IsAnswer(answer)) {
    if (answer.contains("error")) {
      imported.status = InternalError(answer["error"].get<std::string>());
      if (const std::string file = answer.value("file", ""); !file.empty()) {
        imported.place = CodePlace{file, answer.value("line", 0)};
      }
    } else if (answer.contains("asks_server")) {
      imported.asks_server = true;
    } else if (answer.contains("completed") && answer["completed"].is_object()) {
      imported.completed_config = DumpJson(answer["completed"]);
    }
    return imported;
  }
  imported.place = PlaceInTrace(run.errors, request.file);
  if (run.timed_out) {
    imported.status =
        InternalError("the import did not end within " + std::to_string(options.timeout_seconds) +
                      " s (--import-timeout-seconds)");
  } else if (WIFSIGNALED(run.wait_status)) {
    const int number = WTERMSIG(run.wait_status);
    imported.status = InternalError("the import ended the process by signal " + std::to_string(number) +
                                    " (" + ::strsignal(number) + ")");
  } else {
    const std::string last = LastLine(run.errors);
    imported.status =
        InternalError("the import ended the process with exit code " +
                      std::to_string(WEXITSTATUS(run.wait_status)) + (last.empty() ? "" : ": ") + last);
  }
  return imported;
}

Result<Imported> Import(const ImportOptions& options, const ImportRequest& request) {
  std::string python = options.python;
  std::vector<std::string> variables;
  Environment environment;
  if (request.environment.empty()) {
    for (char** variable = environ; *variable != nullptr; ++variable) variables.emplace_back(*variable);
  } else {
    BRAID_ASSIGN_OR_RETURN(environment, OpenEnvironment(request.environment));
    BRAID_ASSIGN_OR_RETURN(python, FindInterpreter(environment.folder));
    variables = EnvironmentVariables(environ, environment.folder);
  }
  const Json asked = {{"class_name", request.class_name},   {"file", request.file},
                      {"module_name", request.module_name}, {"version_path", request.version_path},
                      {"config", request.config_json},      {"keeps_sequences", request.keeps_sequences},
                      {"decoupled", request.decoupled}};
  BRAID_ASSIGN_OR_RETURN(const Run run,
                         Execute({python, options.worker_directory + "/braid_worker/check_model.py"},
                                 std::move(variables), DumpJson(asked), options));
  return Judge(run, request, options);
}

}  // namespace

Imported ImportModel(const ImportOptions& options, const ImportRequest& request) {
  auto imported = Import(options, request);
  if (imported.ok()) return *std::move(imported);
  Imported failed;
  failed.status = imported.status();
  return failed;
}

}  // namespace braid::check
