#include "backends/python/worker_spawner.h"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/prctl.h>
#include <sys/socket.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <nlohmann/json.hpp>
#include <vector>

#include "base/clock.h"
#include "base/json_dump.h"
#include "base/send_descriptors.h"

extern char** environ;

namespace braid {
namespace {

// Where the inherited descriptors of a fresh interpreter begin.
constexpr int kFirstInherited = 3;
constexpr size_t kMaxDatagram = 64 << 10;
// How long to wait for the last words of a process that has just died.
constexpr int64_t kLastWordsNs = 200'000'000;

}  // namespace

WorkerSpawner::WorkerSpawner(Options options, ChildReaper& reaper, OutputPump& pump, Logger& log)
    : options_(std::move(options)), reaper_(reaper), pump_(pump), log_(log) {}

WorkerSpawner::~WorkerSpawner() {
  std::lock_guard lock(mutex_);
  zygote_.Reset();
  if (zygote_pid_ != 0) reaper_.Kill(zygote_pid_, SIGKILL);
}

Result<WorkerSpawner::Pipes> WorkerSpawner::MakePipes() {
  int output[2];
  int error[2];
  if (pipe2(output, O_CLOEXEC) != 0) return UnavailableError(ErrnoError("pipe", errno).message());
  Pipes pipes;
  pipes.read_output.Reset(output[0]);
  pipes.write_output.Reset(output[1]);
  if (pipe2(error, O_CLOEXEC) != 0) return UnavailableError(ErrnoError("pipe", errno).message());
  pipes.read_error.Reset(error[0]);
  pipes.write_error.Reset(error[1]);
  return pipes;
}

Result<pid_t> WorkerSpawner::Exec(const char* script, const int* inherited, size_t inherited_count,
                                  const Pipes& pipes) {
  const std::string path = options_.worker_directory + "/braid_worker/" + script;
  std::vector<std::string> arguments = {options_.python, path};
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, pipes.write_output.get(), 1);
  posix_spawn_file_actions_adddup2(&actions, pipes.write_error.get(), 2);
  // Duplicates above every target first, so that no dup2 overwrites a descriptor that is still to be passed.
  std::vector<UniqueFd> high;
  for (size_t i = 0; i < inherited_count; ++i) {
    high.emplace_back(fcntl(inherited[i], F_DUPFD_CLOEXEC, 64));
    posix_spawn_file_actions_adddup2(&actions, high.back().get(), kFirstInherited + static_cast<int>(i));
    arguments.push_back(std::to_string(kFirstInherited + i));
  }
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  // A process group of its own: a Ctrl-C on the terminal is for the server, which then ends its workers in
  // order. Signals that the server blocks or ignores are put back to their defaults.
  sigset_t none;
  sigset_t defaults;
  sigemptyset(&none);
  sigemptyset(&defaults);
  sigaddset(&defaults, SIGPIPE);
  posix_spawnattr_setpgroup(&attributes, 0);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setsigdefault(&attributes, &defaults);
  posix_spawnattr_setflags(&attributes,
                           POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  std::vector<char*> argv;
  for (std::string& argument : arguments) argv.push_back(argument.data());
  argv.push_back(nullptr);
  std::vector<char*> variables;
  for (const std::string& variable : options_.environment)
    variables.push_back(const_cast<char*>(variable.c_str()));
  variables.push_back(nullptr);
  // Of this thread alone, which starts nothing else; inherited for good.
  prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
  pid_t pid = 0;
  const int error = posix_spawn(&pid, options_.python.c_str(), &actions, &attributes, argv.data(),
                                options_.environment.empty() ? environ : variables.data());
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  if (error != 0) return ErrnoError("cannot start the Python interpreter '" + options_.python + "'", error);
  return pid;
}

Result<pid_t> WorkerSpawner::SpawnFresh(const Channel::WorkerEnd& worker_end, const Pipes& pipes) {
  const int inherited[] = {worker_end.memory.get(), worker_end.socket.get(), worker_end.wake.get()};
  return Exec("main.py", inherited, 3, pipes);
}

Status WorkerSpawner::ZygoteLostLocked(const std::string& what) {
  std::string last;
  if (zygote_output_) last = zygote_output_->LastErrorLine(kLastWordsNs);
  zygote_.Reset();
  if (zygote_pid_ != 0) reaper_.Kill(zygote_pid_, SIGKILL);
  zygote_pid_ = 0;
  zygote_output_.reset();
  std::string text = "Python interpreter '" + options_.python + "': " + what;
  if (!last.empty()) text += "; last line of stderr: " + last;
  return InternalError(std::move(text));
}

Result<std::string> WorkerSpawner::ReceiveFromZygoteLocked() {
  const int64_t deadline = SteadyNowNs() + options_.timeout_ns;
  while (true) {
    const int64_t left_ms = (deadline - SteadyNowNs()) / 1'000'000;
    if (left_ms <= 0)
      return ZygoteLostLocked("it did not answer within " +
                              std::to_string(options_.timeout_ns / 1'000'000'000) +
                              " seconds (--backend-config=python,stub-timeout-seconds)");
    pollfd wait{zygote_.get(), POLLIN, 0};
    const int ready = poll(&wait, 1, static_cast<int>(left_ms));
    if (ready < 0 && errno != EINTR) return ZygoteLostLocked(ErrnoError("poll", errno).message());
    if (ready <= 0) continue;
    std::string text(kMaxDatagram, '\0');
    const ssize_t length = recv(zygote_.get(), text.data(), text.size(), 0);
    if (length < 0 && errno == EINTR) continue;
    if (length <= 0) return ZygoteLostLocked("it ended while it was needed");
    text.resize(static_cast<size_t>(length));
    return text;
  }
}

Status WorkerSpawner::StartZygoteLocked() {
  int sockets[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets) != 0)
    return ErrnoError("socketpair", errno);
  zygote_.Reset(sockets[0]);
  UniqueFd theirs(sockets[1]);
  BRAID_ASSIGN_OR_RETURN(Pipes pipes, MakePipes());
  const int inherited[] = {theirs.get()};
  {
    ChildReaper::SpawnScope scope(reaper_);
    BRAID_ASSIGN_OR_RETURN(zygote_pid_, Exec("zygote.py", inherited, 1, pipes));
    BRAID_RETURN_IF_ERROR(reaper_.Watch(zygote_pid_, [](ExitCause) {}));
  }
  theirs.Reset();
  BRAID_ASSIGN_OR_RETURN(zygote_output_,
                         pump_.Add("python", std::move(pipes.read_output), std::move(pipes.read_error)));
  pipes.write_output.Reset();
  pipes.write_error.Reset();
  BRAID_ASSIGN_OR_RETURN(std::string text, ReceiveFromZygoteLocked());
  const auto answer = nlohmann::json::parse(text, nullptr, false);
  if (!answer.is_object()) return ZygoteLostLocked("it answered with something that is not understood");
  if (!answer.value("ready", false)) return ZygoteLostLocked(answer.value("error", "it is not ready"));
  BRAID_LOG_INFO(log_, "Python {} at '{}', numpy {}", answer.value("python", "?"), options_.python,
                 answer.value("numpy", "?"));
  return OkStatus();
}

Result<pid_t> WorkerSpawner::SpawnForked(const std::string& name, const Channel::WorkerEnd& worker_end,
                                         const Pipes& pipes) {
  std::lock_guard lock(mutex_);
  const std::string order = DumpJson(nlohmann::json{{"name", name}});
  const int fds[] = {worker_end.memory.get(), worker_end.socket.get(), worker_end.wake.get(),
                     pipes.write_output.get(), pipes.write_error.get()};
  for (int attempt = 0; attempt < 2; ++attempt) {
    if (!zygote_.valid()) BRAID_RETURN_IF_ERROR(StartZygoteLocked());
    if (!SendDescriptors(zygote_.get(), std::as_bytes(std::span(order)), fds, 0, "the zygote").ok()) {
      // It has died since the last order. A new one is made, once.
      Status lost = ZygoteLostLocked("it ended since it was last needed");
      BRAID_LOG_WARNING(log_, "{}", lost.message());
      continue;
    }
    BRAID_ASSIGN_OR_RETURN(std::string text, ReceiveFromZygoteLocked());
    const auto answer = nlohmann::json::parse(text, nullptr, false);
    const int64_t pid = answer.is_object() ? answer.value("pid", int64_t{0}) : 0;
    if (pid > 0) return static_cast<pid_t>(pid);
    if (answer.is_object()) return InternalError(answer.value("error", "the worker could not be forked"));
    return ZygoteLostLocked("it answered with something that is not understood");
  }
  return InternalError("Python interpreter '" + options_.python + "' ends again and again");
}

Result<WorkerSpawner::Worker> WorkerSpawner::Spawn(const std::string& name, Channel::WorkerEnd worker_end,
                                                   ChildReaper::OnExit on_exit) {
  BRAID_ASSIGN_OR_RETURN(Pipes pipes, MakePipes());
  Worker worker;
  {
    ChildReaper::SpawnScope scope(reaper_);
    if (options_.start == WorkerStart::kFresh) {
      BRAID_ASSIGN_OR_RETURN(worker.pid, SpawnFresh(worker_end, pipes));
    } else {
      BRAID_ASSIGN_OR_RETURN(worker.pid, SpawnForked(name, worker_end, pipes));
    }
    // Before the worker is sent its model.
    if (Status limited = ApplyWorkerLimits(worker.pid, options_.limits); !limited.ok()) {
      kill(worker.pid, SIGKILL);
      return limited;
    }
    if (Status watched = reaper_.Watch(worker.pid, std::move(on_exit)); !watched.ok()) {
      kill(worker.pid, SIGKILL);
      return watched;
    }
  }
  BRAID_ASSIGN_OR_RETURN(worker.output,
                         pump_.Add(name, std::move(pipes.read_output), std::move(pipes.read_error)));
  return worker;
}

}  // namespace braid
