#include "check/import.h"

#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstring>
#include <future>
#include <memory>
#include <string_view>
#include <thread>
#include <utility>

#include "backends/python/environment.h"
#include "backends/python/environment_archive.h"
#include "base/clock.h"
#include "base/json.h"
#include "base/process_family.h"
#include "base/temporary_folder.h"
#include "base/thread.h"
#include "base/unique_fd.h"
#include "isolation/confinement.h"

extern char** environ;

namespace braid::check {
namespace {

// What a process may write into one file, its output among them.
constexpr rlim_t kMostFileBytes = rlim_t{1} << 30;
constexpr int64_t kEndNs = 5'000 * kMillisecondNs;
// Of a process whose time is over, to say where it is.
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

// What the child gives up between fork and exec besides what its thread has (isolation/confinement.h), of which nothing allocates: other
// threads may hold locks. Without a network it can make sockets all the same: code that makes one as it is imported would do so in a
// worker. That namespace is why this is no StartProgram(): who is not root gets one in a process with memory of its own alone.
struct Surroundings {
  std::string user_map;
  std::string group_map;
  rlim_t memory_bytes = 0;
  int64_t cpu_seconds = 0;

  void Enter() const {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    // Without a network as far as this system lets its users do that.
    if (::unshare(CLONE_NEWNET) != 0 && ::unshare(CLONE_NEWUSER | CLONE_NEWNET) == 0) {
      Write("/proc/self/setgroups", "deny");
      Write("/proc/self/uid_map", user_map);
      Write("/proc/self/gid_map", group_map);
    }
    Limit(RLIMIT_CORE, 0);
    Limit(RLIMIT_FSIZE, kMostFileBytes);
    if (memory_bytes > 0) Limit(RLIMIT_DATA, memory_bytes);
    Limit(RLIMIT_CPU, static_cast<rlim_t>(cpu_seconds));
  }

 private:
  static void Write(const char* path, std::string_view text) {
    const int file = ::open(path, O_WRONLY | O_CLOEXEC);
    if (file < 0) return;
    [[maybe_unused]] const ssize_t put = ::write(file, text.data(), text.size());
    ::close(file);
  }
  static void Limit(int resource, rlim_t value) {
    rlimit limit{};
    if (::getrlimit(static_cast<__rlimit_resource>(resource), &limit) != 0) return;
    limit.rlim_max = std::min(limit.rlim_max, value);
    limit.rlim_cur = std::min(limit.rlim_cur, limit.rlim_max);
    ::setrlimit(static_cast<__rlimit_resource>(resource), &limit);
  }
};

struct Run {
  bool timed_out = false;
  int wait_status = 0;
  std::string answer;
  std::string errors;
};

// Runs the program with its files as 0 (request), 2 and 3 (answer), and ends it.
class Process {
 public:
  Process(std::string python, std::string script, std::vector<std::string> variables)
      : python_(std::move(python)), script_(std::move(script)), variables_(std::move(variables)) {}
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;
  ~Process() {
    if (!parent_.joinable()) return;
    over_.set_value();
    parent_.join();
  }

  Result<Run> Execute(std::string_view request, const ImportOptions& options) {
    BRAID_ASSIGN_OR_RETURN(const UniqueFd in, MemoryFile("request", request));
    BRAID_ASSIGN_OR_RETURN(const UniqueFd out, MemoryFile("answer", ""));
    BRAID_ASSIGN_OR_RETURN(const UniqueFd errors, MemoryFile("errors", ""));
    BRAID_RETURN_IF_ERROR(Start(in, out, errors, options));
    Run run;
    run.timed_out = !AwaitExit(static_cast<int>(options.timeout_seconds * 1000));
    if (run.timed_out) {
      ::kill(pid_, SIGUSR1);
      AwaitExit(kLastWordsMs);
    }
    End(run.wait_status);
    run.answer = ContentOf(out);
    run.errors = ContentOf(errors);
    return run;
  }

 private:
  Status Start(const UniqueFd& in, const UniqueFd& out, const UniqueFd& errors,
               const ImportOptions& options) {
    std::vector<char*> argv = {python_.data(), script_.data(), nullptr};
    std::vector<char*> variables;
    for (std::string& variable : variables_) variables.push_back(variable.data());
    variables.push_back(nullptr);
    Surroundings surroundings;
    surroundings.user_map = std::to_string(::geteuid()) + " " + std::to_string(::geteuid()) + " 1";
    surroundings.group_map = std::to_string(::getegid()) + " " + std::to_string(::getegid()) + " 1";
    surroundings.memory_bytes = options.memory_bytes;
    // A process of many threads uses more time than there is on the clock.
    surroundings.cpu_seconds = options.timeout_seconds * 64;
    int gate[2];
    if (pipe2(gate, O_CLOEXEC) != 0) return ErrnoError("pipe", errno);
    const UniqueFd wait(gate[0]);
    UniqueFd go(gate[1]);
    const UniqueFd null(::open("/dev/null", O_WRONLY | O_CLOEXEC));
    const auto run = [&] {
      ::setsid();
      sigset_t none;
      sigemptyset(&none);
      ::sigprocmask(SIG_SETMASK, &none, nullptr);
      char byte = 0;
      // The family is founded before there can be a second member.
      if (::read(wait.get(), &byte, 1) != 1) ::_exit(126);
      surroundings.Enter();
      // Above all targets, so that no duplicate closes what is still to be passed.
      const std::array<int, 4> high = {
          ::fcntl(in.get(), F_DUPFD_CLOEXEC, 64), ::fcntl(null.get(), F_DUPFD_CLOEXEC, 64),
          ::fcntl(errors.get(), F_DUPFD_CLOEXEC, 64), ::fcntl(out.get(), F_DUPFD_CLOEXEC, 64)};
      for (size_t i = 0; i < high.size(); ++i) ::dup2(high[i], static_cast<int>(i));
      ::execve(python_.c_str(), argv.data(), variables.data());
      ::_exit(127);
    };
    auto confinement = PreparedConfinement::Make({.level = IsolationLevel::kBasic});
    BRAID_RETURN_IF_ERROR(confinement.status());
    // What it gives up it has given up for good; it stays because the process ends with it.
    parent_ = StartThread("brd-import", [&] {
      Status confined = confinement->Enter();
      if (confined.ok()) pid_ = ::fork();
      if (confined.ok() && pid_ == 0) run();
      if (pid_ < 0) confined = ErrnoError("fork", errno);
      started_.set_value(std::move(confined));
      over_.get_future().wait();
    });
    BRAID_RETURN_IF_ERROR(started_.get_future().get());
    auto family = ProcessFamily::Found(pid_);
    if (!family.ok()) {
      int ignored = 0;
      ::kill(pid_, SIGKILL);
      ::waitpid(pid_, &ignored, 0);
      return family.status();
    }
    family_ = std::make_unique<ProcessFamily>(*family);
    if (::write(go.get(), "g", 1) != 1) return ErrnoError("write", errno);
    return OkStatus();
  }

  // Whether it has ended by then.
  bool AwaitExit(int timeout_ms) const {
    const UniqueFd process(static_cast<int>(::syscall(SYS_pidfd_open, pid_, 0)));
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

  void End(int& wait_status) const {
    // The head stays a zombie until it is waited for, so its number is no other's.
    ::kill(pid_, SIGKILL);
    while (::waitpid(pid_, &wait_status, 0) < 0 && errno == EINTR) {
    }
    static_cast<void>(family_->End(kEndNs));
  }

  std::string python_;
  std::string script_;
  std::vector<std::string> variables_;
  std::thread parent_;  // of the process
  std::promise<Status> started_;
  std::promise<void> over_;
  pid_t pid_ = 0;  // written by that thread before it says that it has started
  std::unique_ptr<ProcessFamily> family_;
};

// `  File "/m/1/model.py", line 7 in <module>`, as faulthandler writes it; the first, which is the innermost.
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

// A folder with the environment's files, and what removes them again.
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

// The file that is imported can write there too.
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
  Process process(python, options.worker_directory + "/braid_worker/check_model.py", std::move(variables));
  BRAID_ASSIGN_OR_RETURN(const Run run, process.Execute(DumpJson(asked), options));
  if (WIFEXITED(run.wait_status) && WEXITSTATUS(run.wait_status) == 127 && run.answer.empty()) {
    return InternalError("cannot start the Python interpreter '" + python + "'");
  }
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
