#include "workers/worker_process.h"

#include <algorithm>
#include <cctype>
#include <chrono>
#include <csignal>
#include <fstream>

#include "base/clock.h"
#include "workers/user_code_limit.h"

namespace braid {
namespace {

constexpr int64_t kLookAroundNs = kSecondNs;
constexpr int64_t kProgressNs = 10 * kSecondNs;
constexpr int64_t kLastWordsNs = 200'000'000;
// SIGRTMIN plus this number; braid_worker/main.py uses the same.
constexpr int kStacksSignal = 6;
// The time for the kernel to remove a killed process.
constexpr int64_t kReapNs = 10 * kSecondNs;

// Returns the number of processes that the kernel has killed for lack of memory on this machine.
uint64_t OomKills() {
  std::ifstream file("/proc/vmstat");
  std::string name;
  uint64_t value = 0;
  while (file >> name >> value) {
    if (name == "oom_kill") return value;
  }
  return 0;
}

}  // namespace

WorkerProcess::WorkerProcess(std::string name, WorkerSpawner& spawner)
    : name_(std::move(name)),
      spawner_(spawner),
      reaper_(*spawner.support().reaper),
      log_(spawner.support().log),
      oom_kills_before_(OomKills()),
      fate_(std::make_shared<Fate>()) {}

WorkerProcess::~WorkerProcess() {
  if (pid_ != 0 && !dead()) EnsureDead();
}

Result<std::unique_ptr<WorkerProcess>> WorkerProcess::Start(const std::string& name,
                                                            const WorkerIsolation& isolation,
                                                            WorkerSpawner& spawner, ForkSource* source) {
  std::unique_ptr<WorkerProcess> worker(new WorkerProcess(name, spawner));
  if (source != nullptr) {
    BRAID_RETURN_IF_ERROR(source->Use([&](const ForkServer& from) {
      return worker->Spawn({.start = WorkerStart::kFork, .from = &from}, isolation);
    }));
    return worker;
  }
  const WorkerStart start = spawner.StartOf(isolation);
  Status started = worker->Spawn({.start = start}, isolation);
  if (started.code() == StatusCode::kUnavailable && start == WorkerStart::kFork) {
    BRAID_LOG_WARNING(worker->log_, "{}; starting instance '{}' in a separate interpreter", started.message(),
                      name);
    started = worker->Spawn({.start = WorkerStart::kFresh}, isolation);
  }
  BRAID_RETURN_IF_ERROR(started);
  return worker;
}

Result<std::unique_ptr<WorkerProcess>> WorkerProcess::StartTemplate(const std::string& name,
                                                                    const WorkerIsolation& isolation,
                                                                    WorkerSpawner& spawner,
                                                                    const UniqueFd& fork_socket) {
  std::unique_ptr<WorkerProcess> worker(new WorkerProcess(name, spawner));
  BRAID_RETURN_IF_ERROR(
      worker->Spawn({.start = WorkerStart::kFork, .fork_socket = fork_socket.get()}, isolation));
  return worker;
}

Status WorkerProcess::Spawn(const WorkerSpawner::Origin& origin, const WorkerIsolation& isolation) {
  // Each try has a new channel: an unreported process may own the first one.
  Channel::WorkerEnd worker_end;
  Channel::Options options;
  options.imports = std::make_shared<SegmentBudget>(spawner_.segments());
  BRAID_ASSIGN_OR_RETURN(channel_, Channel::CreateServerEnd(options, worker_end));
  auto on_exit = [fate = fate_, channel = channel_](ExitCause cause) {
    {
      MutexLock lock(fate->mutex);
      fate->dead = true;
      fate->cause = cause;
      fate->changed.NotifyAll();
    }
    channel->Interrupt();
  };
  BRAID_ASSIGN_OR_RETURN(WorkerSpawner::Worker process,
                         spawner_.Spawn(name_, origin, isolation, std::move(worker_end), std::move(on_exit)));
  pid_ = process.pid;
  place_ = std::move(process.place);
  readable_ = std::move(process.readable);
  output_ = std::move(process.output);
  return OkStatus();
}

bool WorkerProcess::dead() const { return fate_->dead; }

bool WorkerProcess::OutOfMemory() const { return OomKills() > oom_kills_before_; }

bool WorkerProcess::killed_by_others() const {
  {
    MutexLock lock(fate_->mutex);
    if (!fate_->dead || fate_->killed) return false;
    if (!fate_->cause.signalled || fate_->cause.number != SIGKILL) return false;
  }
  return !OutOfMemory();
}

void WorkerProcess::WriteStacks() { reaper_.Kill(pid_, SIGRTMIN + kStacksSignal); }

void WorkerProcess::Kill() {
  {
    MutexLock lock(fate_->mutex);
    if (!fate_->dead) fate_->killed = true;
  }
  reaper_.Kill(pid_, SIGKILL);
}

void WorkerProcess::EnsureDead() {
  Kill();
  MutexLock lock(fate_->mutex);
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::nanoseconds(kReapNs);
  while (!fate_->dead && fate_->changed.WaitUntil(fate_->mutex, deadline)) {
  }
  if (!fate_->dead) {
    BRAID_LOG_ERROR(log_, "process {} of instance '{}' was killed but does not end", pid_, name_);
  }
}

WorkerProcess::Death WorkerProcess::DescribeDeath(const std::string& broken_rule) const {
  std::string text = "Stub process '" + name_ + "' is not healthy.";
  {
    MutexLock lock(fate_->mutex);
    if (!broken_rule.empty()) {
      text += " It was ended because " + broken_rule;
    } else if (fate_->dead) {
      std::string cause = fate_->cause.ToString();
      cause[0] = static_cast<char>(std::toupper(static_cast<unsigned char>(cause[0])));
      text += " " + cause;
      if (fate_->cause.signalled && fate_->cause.number == SIGKILL) {
        text += OutOfMemory() ? ", out of memory: yes" : ", out of memory: no";
      }
    }
  }
  std::string logged = text;
  if (output_) {
    const std::string last = output_->LastErrorLine(kLastWordsNs);
    if (!last.empty()) logged += "; last line of stderr: " + last;
  }
  return {logged, spawner_.verbose_errors() ? logged : text};
}

Status WorkerProcess::Died(const std::string& broken_rule) const {
  const Death death = DescribeDeath(broken_rule);
  BRAID_LOG_ERROR(log_, "{}", death.logged);
  return InternalError(death.told);
}

Status WorkerProcess::AwaitSignIn(const OtherMessage& other) {
  const int64_t deadline = SteadyNowNs() + spawner_.timeout_ns();
  std::vector<std::byte> message;
  while (true) {
    const bool dead_now = dead();
    const auto outcome = channel_->Receive(message, dead_now ? 0 : kLookAroundNs);
    if (outcome == Channel::Outcome::kCorrupted) return Died("it wrote invalid data to its channel");
    if (outcome == Channel::Outcome::kMessage) {
      HelloMessage hello;
      if (TypeOf(message) == MessageType::kHello && Decode(message, hello)) return OkStatus();
      if (Status handled = other(message); !handled.ok()) return Died(handled.message());
      continue;
    }
    if (dead_now) return Died("");
    if (SteadyNowNs() >= deadline) {
      return Died("it did not connect within " + std::to_string(spawner_.timeout_ns() / kSecondNs) +
                  " seconds (--backend-config=python,stub-timeout-seconds)");
    }
  }
}

Result<WorkerProcess::Answer> WorkerProcess::Load(LoadMode mode, const WorkerFacts& facts,
                                                  const WorkerSpec& spec, const OtherMessage& other,
                                                  const LoadWatch& watch) {
  const std::string device = std::to_string(spec.device_id);
  LoadMessage load;
  load.mode = mode;
  load.model_file = facts.model_file;
  load.module_name = facts.module_name;
  load.model_path = facts.model_path;
  load.version_path = facts.version_path;
  load.model_config = facts.model_config_json;
  load.model_name = facts.model_name;
  load.model_version = facts.model_version;
  load.instance_name = spec.name;
  load.instance_kind = spec.kind;
  load.instance_device_id = device;
  load.arena_keep_bytes = facts.arena_keep_bytes;
  load.device_pools = facts.device_pools;
  load.pinned_pool_bytes = facts.pinned_pool_bytes;
  load.verbose_errors = spawner_.verbose_errors();
  load.keeps_sequences = facts.keeps_sequences;
  load.debugger = facts.debugger;
  std::vector<std::byte> message;
  Encode(message, load);
  BRAID_RETURN_IF_ERROR(channel_->Send(message));
  const int64_t start = SteadyNowNs();
  int64_t next_report_ns = start + kProgressNs;
  UserCodeLimit limit(start, watch.timeout_ns);
  const auto overdue = [&] {
    return UnavailableError(
        fmt::format("{} has not {} within {} ms (--initialize-timeout-ms, INITIALIZE_TIMEOUT_MS)", watch.who,
                    watch.done, watch.timeout_ns / kMillisecondNs));
  };
  while (true) {
    const bool dead_now = dead();
    int64_t wait_ns = 0;
    if (!dead_now) {
      const int64_t now = SteadyNowNs();
      std::string progress;
      if (now >= next_report_ns) {
        next_report_ns += kProgressNs;
        progress = fmt::format("{} has been {} for {} s", watch.who, watch.doing, (now - start) / kSecondNs);
        BRAID_LOG_INFO(log_, "{}", progress);
      }
      BRAID_RETURN_IF_ERROR(watch.look(progress));
      if (limit.Passes(now)) {
        BRAID_LOG_ERROR(log_, "{}; its stacks follow", overdue().message());
        WriteStacks();
      }
      if (limit.over(now)) return overdue();
      wait_ns = std::clamp(limit.next_ns() - now, int64_t{0}, kLookAroundNs);
    }
    const auto outcome = channel_->Receive(message, wait_ns);
    if (outcome == Channel::Outcome::kCorrupted) return Died("it wrote invalid data to its channel");
    if (outcome == Channel::Outcome::kMessage) {
      if (TypeOf(message) != MessageType::kLoaded) {
        if (Status handled = other(message); !handled.ok()) return Died(handled.message());
        continue;
      }
      LoadedMessage loaded;
      if (!Decode(message, loaded)) return Died("its answer is malformed");
      if (loaded.code != StatusCode::kOk) return Status(loaded.code, std::string(loaded.error));
      // The limit applies even if user code returned while its stacks were written.
      if (limit.passed()) return overdue();
      return Answer{std::string(loaded.auto_completed_config), loaded.has_readiness_hook,
                    loaded.wants_sessions, loaded.saves_sequences};
    }
    if (dead_now) return Died("");
  }
}

}  // namespace braid
