#include "workers/worker_spawner.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <optional>
#include <vector>

#include "base/clock.h"
#include "base/guard.h"
#include "base/json.h"
#include "base/process_memory.h"
#include "base/thread.h"
#include "isolation/start_program.h"
#include "isolation/worker_surroundings.h"
#include "workers/restart_pauses.h"

extern char** environ;

namespace braid {
namespace {

// The wait for the last output of a process that has just died.
constexpr int64_t kZygoteLastWordsNs = 200'000'000;
constexpr std::string_view kPrivateFolderPrefix = "braid-worker-";
// Processes and threads of one worker of level separate.
constexpr uint64_t kMostProcesses = 4096;

std::vector<std::string> Variables(const char* const* variables) {
  std::vector<std::string> texts;
  for (; *variables != nullptr; ++variables) texts.emplace_back(*variables);
  return texts;
}

}  // namespace

WorkerSpawner::WorkerSpawner(Options options, WorkerSupport& support)
    : options_(std::move(options)), support_(support), reaper_(*support.reaper), log_(support.log) {}

WorkerSpawner::~WorkerSpawner() {
  {
    MutexLock lock(deaths_->mutex);
    deaths_->ending = true;
    deaths_->changed.NotifyAll();
  }
  if (keeper_.joinable()) keeper_.join();
  MutexLock lock(mutex_);
  zygote_.Close();
  if (zygote_pid_ != 0) reaper_.Kill(zygote_pid_, SIGKILL);
}

Result<WorkerSpawner::Pipes> WorkerSpawner::MakePipes() {
  int output[2];
  int error[2];
  if (pipe2(output, O_CLOEXEC) != 0) return ErrnoError("pipe", errno);
  Pipes pipes;
  pipes.read_output.Reset(output[0]);
  pipes.write_output.Reset(output[1]);
  if (pipe2(error, O_CLOEXEC) != 0) return ErrnoError("pipe", errno);
  pipes.read_error.Reset(error[0]);
  pipes.write_error.Reset(error[1]);
  return pipes;
}

WorkerStart WorkerSpawner::StartOf(const WorkerIsolation& isolation) const {
  const bool as_warm =
      isolation.level == options_.isolation.level && isolation.level <= IsolationLevel::kBasic;
  return as_warm ? options_.start : WorkerStart::kFresh;
}

WorkerSpawner::LaunchSettings WorkerSpawner::PlainSettings(IsolationLevel level) const {
  return {.confinement = {.level = level},
          .variables = options_.environment.empty() ? Variables(environ) : options_.environment};
}

Result<WorkerSpawner::Place> WorkerSpawner::MakePlace(const WorkerIsolation& isolation) const {
  Place place;
  if (!options_.isolation.cgroup.empty()) {
    BRAID_ASSIGN_OR_RETURN(place.cgroup, WorkerCgroup::Create(options_.isolation.cgroup, isolation.cgroup));
  }
  if (isolation.level < IsolationLevel::kStrict) return place;
  BRAID_ASSIGN_OR_RETURN(place.folder,
                         TemporaryFolder::Create(options_.temporary_directory, kPrivateFolderPrefix));
  if (isolation.level < IsolationLevel::kSeparate) return place;
  BRAID_ASSIGN_OR_RETURN(place.user, options_.user_ids->Take());
  if (chown(place.folder->path().c_str(), *place.user, *place.user) != 0)
    return ErrnoError("chown of '" + place.folder->path() + "'", errno);
  return place;
}

WorkerSpawner::LaunchSettings WorkerSpawner::SettingsIn(const Place& place,
                                                        const WorkerIsolation& isolation) const {
  LaunchSettings settings = PlainSettings(isolation.level);
  for (const WorkerLimit& limit : LimitsOf(isolation.level))
    settings.limits.push_back({limit.resource, {limit.value, limit.value}});
  if (!place.folder) return settings;
  settings.folder = place.folder->path();
  settings.variables = ShortEnvironment(settings.variables, options_.isolation.variables, settings.folder);
  Confinement& confinement = settings.confinement;
  confinement.files = SystemPaths();
  const auto add = [&files = confinement.files](const std::vector<LandlockPath>& more) {
    files.insert(files.end(), more.begin(), more.end());
  };
  // The path itself too, since links on the way to the installation must exist.
  if (!options_.python.empty()) add({{options_.python, false}});
  add(InterpreterPaths(options_.python));
  if (isolation.gpus) add(GpuPaths());
  add(isolation.files);
  add(options_.isolation.paths);
  add({{options_.worker_directory, false}, {settings.folder, true}});
  if (place.user) confinement.user_id = *place.user;
  return settings;
}

std::vector<std::string> WorkerSpawner::Script(const char* name) const {
  return {options_.python, options_.worker_directory + "/braid_worker/" + name};
}

Result<pid_t> WorkerSpawner::Exec(std::vector<std::string> arguments, std::span<const int> inherited,
                                  const Pipes& pipes, LaunchSettings settings) {
  const UniqueFd null(open("/dev/null", O_RDONLY | O_CLOEXEC));
  ProgramStart start{.arguments = std::move(arguments),
                     .variables = std::move(settings.variables),
                     .descriptors = {null.get(), pipes.write_output.get(), pipes.write_error.get()},
                     .folder = std::move(settings.folder),
                     .limits = std::move(settings.limits),
                     .confinement = std::move(settings.confinement)};
  for (const int descriptor : inherited) {
    start.arguments.push_back(std::to_string(start.descriptors.size()));
    start.descriptors.push_back(descriptor);
  }
  Result<pid_t> pid = StartProgram(start);
  if (pid.ok()) return pid;
  return pid.status().WithPrefix(options_.program.empty() ? "cannot start the Python interpreter "
                                                          : "cannot start the program ");
}

Result<pid_t> WorkerSpawner::SpawnFresh(const Channel::WorkerEnd& worker_end, const Pipes& pipes,
                                        LaunchSettings settings) {
  const int inherited[] = {worker_end.memory.get(), worker_end.socket.get(), worker_end.wake.get()};
  std::vector<std::string> arguments = options_.program;
  if (arguments.empty()) {
    arguments = Script("main.py");
    if (settings.confinement.level != IsolationLevel::kNone) arguments.emplace_back("apart");
  }
  return Exec(std::move(arguments), inherited, pipes, std::move(settings));
}

std::vector<WorkerLimit> WorkerSpawner::LimitsOf(IsolationLevel level) const {
  std::vector<WorkerLimit> limits;
  // Core files of workers would contain clients' tensors.
  if (level >= IsolationLevel::kBasic) limits.push_back({"core", RLIMIT_CORE, 0});
  // The worker's user has no other processes.
  if (level >= IsolationLevel::kSeparate) limits.push_back({"nproc", RLIMIT_NPROC, kMostProcesses});
  limits.insert(limits.end(), options_.limits.begin(), options_.limits.end());
  return limits;
}

Status WorkerSpawner::ZygoteLost(const std::string& what) {
  std::string last;
  if (zygote_output_) last = zygote_output_->LastErrorLine(kZygoteLastWordsNs);
  zygote_.Close();
  if (zygote_pid_ != 0) reaper_.Kill(zygote_pid_, SIGKILL);
  zygote_pid_ = 0;
  zygote_output_.reset();
  std::string text = "Python interpreter '" + options_.python + "': " + what;
  if (!last.empty()) {
    const std::string all = text + "; last line of stderr: " + last;
    BRAID_LOG_ERROR(log_, "{}", all);
    if (options_.verbose_errors) text = all;
  }
  return UnavailableError(std::move(text));
}

Status WorkerSpawner::StartZygote() {
  BRAID_ASSIGN_OR_RETURN(UniqueFd theirs, zygote_.Open(options_.timeout_ns, deaths_->ending));
  BRAID_ASSIGN_OR_RETURN(Pipes pipes, MakePipes());
  // The zygote belongs to no model, even if a model's load starts it.
  const LogAbout about("");
  const int inherited[] = {theirs.get()};
  {
    ChildReaper::SpawnScope scope(reaper_);
    BRAID_ASSIGN_OR_RETURN(
        zygote_pid_, Exec(Script("zygote.py"), inherited, pipes, PlainSettings(options_.isolation.level)));
    ++zygote_number_;
    zygote_since_ns_ = 0;
    zygote_served_ = zygote_unfit_ = false;
    auto on_exit = [deaths = deaths_, number = zygote_number_](ExitCause cause) {
      MutexLock lock(deaths->mutex);
      if (number < deaths->last) return;
      deaths->last = number;
      deaths->cause = cause;
      deaths->changed.NotifyAll();
    };
    // A zygote that cannot be watched or read is discarded; the next caller that needs one starts another.
    if (Status watched = reaper_.Watch(zygote_pid_, std::move(on_exit)); !watched.ok()) {
      kill(zygote_pid_, SIGKILL);
      return ZygoteLost(watched.message());
    }
  }
  if (!keeper_.joinable()) keeper_ = StartThread("brd-warm", [this] { KeepWarm(); });
  theirs.Reset();
  auto output = support_.pump->Add("python", std::move(pipes.read_output), std::move(pipes.read_error));
  if (!output.ok()) return ZygoteLost(output.status().message());
  zygote_output_ = *std::move(output);
  pipes.write_output.Reset();
  pipes.write_error.Reset();
  const Result<Json> answer = zygote_.Receive();
  if (!answer.ok()) return ZygoteLost(answer.status().message());
  if (!answer->value("ready", false)) {
    zygote_unfit_ = true;
    return InternalError(ZygoteLost(answer->value("error", "it is not ready")).message());
  }
  zygote_since_ns_ = SteadyNowNs();
  BRAID_LOG_INFO(log_, "Python {} at '{}', numpy {}", answer->value("python", "?"), options_.python,
                 answer->value("numpy", "?"));
  return OkStatus();
}

void WorkerSpawner::KeepWarm() {
  RestartPauses pauses;
  uint64_t seen = 0;
  MutexLock waiting(deaths_->mutex);
  while (true) {
    while (!deaths_->ending && deaths_->last <= seen) deaths_->changed.Wait(deaths_->mutex);
    if (deaths_->ending) return;
    seen = deaths_->last;
    RestartPauses::Life life;
    life.killed = deaths_->cause.signalled && deaths_->cause.number == SIGKILL;
    waiting.Unlock();
    bool wanted = false;
    {
      MutexLock lock(mutex_);
      // A caller that needed a zygote meanwhile has started one.
      wanted = seen == zygote_number_ && !zygote_unfit_;
      life.served = zygote_served_;
      if (zygote_since_ns_ != 0) life.up_ns = SteadyNowNs() - zygote_since_ns_;
      if (wanted && zygote_.valid())
        BRAID_LOG_WARNING(log_, "{}", ZygoteLost("it ended and is replaced").message());
    }
    waiting.Lock();
    if (!wanted) continue;
    const auto next_try = std::chrono::steady_clock::now() + std::chrono::nanoseconds(pauses.After(life));
    while (!deaths_->ending && deaths_->changed.WaitUntil(deaths_->mutex, next_try)) {
    }
    if (deaths_->ending) return;
    waiting.Unlock();
    {
      MutexLock lock(mutex_);
      if (seen == zygote_number_) {
        // A failure is retried when that zygote's death is reported, or when a caller needs one.
        const Status status = Guarded([this] {
          mutex_.AssertHeld();  // it is called at once
          return StartZygote();
        });
        if (!status.ok()) BRAID_LOG_WARNING(log_, "{}", status.message());
      }
    }
    waiting.Lock();
  }
}

Result<pid_t> WorkerSpawner::SpawnForked(const std::string& name, const Origin& origin,
                                         const Channel::WorkerEnd& worker_end, const Pipes& pipes) {
  const bool apart = options_.isolation.level == IsolationLevel::kBasic;
  std::vector<int> descriptors = {worker_end.memory.get(), worker_end.socket.get(), worker_end.wake.get(),
                                  pipes.write_output.get(), pipes.write_error.get()};
  if (origin.from != nullptr) return origin.from->Fork(name, apart, descriptors);
  if (origin.fork_socket >= 0) descriptors.push_back(origin.fork_socket);
  // Retries allocations: the answer to this order must be read, or the next order would get it.
  RetryingLock lock(mutex_);
  if (!zygote_.valid()) BRAID_RETURN_IF_ERROR(StartZygote());
  Result<pid_t> pid = zygote_.Fork(name, apart, descriptors);
  if (pid.ok()) {
    zygote_served_ = true;
  } else if (pid.status().code() == StatusCode::kUnavailable) {
    return ZygoteLost(pid.status().message());
  } else {
    return UnavailableError(pid.status().message());
  }
  return pid;
}

Result<WorkerSpawner::Worker> WorkerSpawner::Spawn(const std::string& name, const Origin& origin,
                                                   const WorkerIsolation& isolation,
                                                   Channel::WorkerEnd worker_end,
                                                   ChildReaper::OnExit on_exit) {
  BRAID_ASSIGN_OR_RETURN(Pipes pipes, MakePipes());
  Worker worker;
  BRAID_ASSIGN_OR_RETURN(worker.place, MakePlace(isolation));
  {
    ChildReaper::SpawnScope scope(reaper_);
    if (origin.start == WorkerStart::kFresh) {
      BRAID_ASSIGN_OR_RETURN(worker.pid, SpawnFresh(worker_end, pipes, SettingsIn(worker.place, isolation)));
    } else {
      BRAID_ASSIGN_OR_RETURN(worker.pid, SpawnForked(name, origin, worker_end, pipes));
      // Done before the worker gets its model.
      if (Status limited = ApplyWorkerLimits(worker.pid, LimitsOf(isolation.level)); !limited.ok()) {
        kill(worker.pid, SIGKILL);
        return limited;
      }
    }
    // Also before the worker gets its model.
    if (worker.place.cgroup) {
      if (Status added = worker.place.cgroup->Add(worker.pid); !added.ok()) {
        kill(worker.pid, SIGKILL);
        return added;
      }
    }
    worker.readable = KeepReadable(worker.pid);
    // Processes that the worker starts end with it.
    std::optional<ProcessFamily> family;
    if (isolation.level == IsolationLevel::kSeparate) {
      // It is the first process of its PID namespace, which ends with it.
    } else if (Result<ProcessFamily> founded = ProcessFamily::Found(worker.pid); founded.ok()) {
      family = *founded;
    } else {
      BRAID_LOG_WARNING(log_, "processes that {} starts may outlive it: {}", name,
                        founded.status().message());
    }
    if (Status watched = reaper_.Watch(worker.pid, std::move(on_exit), family); !watched.ok()) {
      kill(worker.pid, SIGKILL);
      return watched;
    }
  }
  BRAID_ASSIGN_OR_RETURN(worker.output,
                         support_.pump->Add(name, std::move(pipes.read_output), std::move(pipes.read_error),
                                            std::string(LogAbout::Model())));
  return worker;
}

}  // namespace braid
