#include "backends/python/replaceable_instance.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/check.h"
#include "base/clock.h"
#include "base/guard.h"
#include "base/thread.h"

namespace braid {
namespace {

// The time limit for a replaced process to finish its requests.
constexpr int64_t kEndingNs = 60'000'000'000;
// The time limit for open sequences to end, and its last part, in which no sequence may begin. That part is
// shorter than the wait for a slot.
constexpr int64_t kSequencesEndNs = 10'000'000'000;
constexpr int64_t kLastCallNs = 500'000'000;
constexpr int64_t kFinalizeNs = 10'000'000'000;
// How often open sequences are checked, since there is no notification.
constexpr int64_t kSequencesNs = 20'000'000;
// The pause before another attempt, if a fresh process could not be started.
constexpr int64_t kNextTryNs = 30'000'000'000;

}  // namespace

ReplaceableInstance::WorkerPtr ReplaceableInstance::MakeWorker() {
  auto worker = std::make_shared<Worker>();
  worker->instance = make_({*this, [this, &at = *worker](bool available) { OnAvailability(at, available); }});
  return worker;
}

void ReplaceableInstance::OnAvailability(Worker& worker, bool available) {
  bool concerns = false;
  {
    MutexLock lock(mutex_);
    worker.available = available;
    // The scheduler knows only the current worker; it does not notice the others.
    concerns = current_.get() == &worker;
    changed_.NotifyAll();
  }
  if (concerns) listener_->OnAvailability(*this, available);
}

// --- Life ----------------------------------------------------------------------------------------------------------

ReplaceableInstance::ReplaceableInstance(Options options, MakeInstance make, MemoryLimits& limits,
                                         Logger& log, std::shared_ptr<WorkerCounters::Row> counters)
    : options_(std::move(options)),
      make_(std::move(make)),
      limits_(limits),
      log_(log),
      counters_(std::move(counters)),
      current_(MakeWorker()) {}

ReplaceableInstance::~ReplaceableInstance() = default;

ReplaceableInstance::WorkerPtr ReplaceableInstance::Current() const {
  MutexLock lock(mutex_);
  return current_;
}

void ReplaceableInstance::Start(ExecutionListener& listener, std::function<void(Status)> on_started,
                                std::function<void()> on_idle) {
  listener_ = &listener;
  on_idle_ = std::move(on_idle);
  Current()->instance->Start(listener, std::move(on_started), on_idle_);
  watched_ = limits_.Watch({.id = [this] { return Current()->instance->report().pid; },
                            .most_bytes = options_.memory_max_bytes,
                            .on_excess = [this](uint64_t bytes) { OnExcess(bytes); }});
}

void ReplaceableInstance::BeginStop(int64_t deadline_ns) {
  watched_.reset();
  std::deque<std::unique_ptr<Execution>> held;
  WorkerPtr worker;
  {
    MutexLock lock(mutex_);
    stopping_ = true;
    stop_deadline_ns_ = deadline_ns;
    changed_.NotifyAll();
    while (entering_ > 0) changed_.Wait(mutex_);
    held.swap(held_);
    worker = current_;
  }
  std::vector<std::unique_ptr<Execution>> unstarted(std::make_move_iterator(held.begin()),
                                                    std::make_move_iterator(held.end()));
  if (!unstarted.empty()) listener_->OnUnstarted(*this, std::move(unstarted));
  worker->instance->BeginStop(deadline_ns);
}

void ReplaceableInstance::Join() {
  std::thread thread;
  {
    MutexLock lock(mutex_);
    thread = std::move(thread_);
  }
  if (thread.joinable()) thread.join();
  Current()->instance->Join();
}

void ReplaceableInstance::RetireSegment(uint32_t segment) {
  std::vector<WorkerPtr> workers;
  {
    MutexLock lock(mutex_);
    workers = others_;
    workers.push_back(current_);
  }
  for (const WorkerPtr& worker : workers) worker->instance->RetireSegment(segment);
}

InstanceReport ReplaceableInstance::report() const {
  InstanceReport report = Current()->instance->report();
  MutexLock lock(mutex_);
  report.executions += executions_before_;
  report.restarts += restarts_before_;
  return report;
}

void ReplaceableInstance::Execute(std::unique_ptr<Execution> execution) {
  const RetryingAllocation retrying;
  WorkerPtr worker;
  {
    MutexLock lock(mutex_);
    if (holding_) {
      held_.push_back(std::move(execution));
      return;
    }
    ++entering_;
    worker = current_;
  }
  worker->instance->Execute(std::move(execution));
  MutexLock lock(mutex_);
  --entering_;
  if (holding_ || stopping_) changed_.NotifyAll();
}

// --- The replacement -----------------------------------------------------------------------------------------------

void ReplaceableInstance::OnExcess(uint64_t bytes) {
  MutexLock lock(mutex_);
  if (replacing_ || stopping_ || !current_->available || SteadyNowNs() < next_try_ns_) return;
  replacing_ = true;
  // The thread of the previous replacement has nothing left to do.
  if (thread_.joinable()) thread_.join();
  thread_ = StartThread("brd-replace", [this, bytes] {
    const LogAbout about(options_.model);
    GuardedOrReport("brd-replace", [&] { Replace(bytes); });
    MutexLock done(mutex_);
    replacing_ = false;
  });
}

bool ReplaceableInstance::WaitLocked(int64_t until_ns) {
  // A bounded wait: some changes send no notification.
  constexpr int64_t kLookNs = 2'000'000;
  const int64_t now_ns = SteadyNowNs();
  if (!stopping_ && until_ns > now_ns)
    changed_.WaitFor(mutex_, std::chrono::nanoseconds(std::min(until_ns - now_ns, kLookNs)));
  return !stopping_;
}

ReplaceableInstance::WorkerPtr ReplaceableInstance::StartFresh() {
  const WorkerPtr fresh = MakeWorker();
  std::optional<Status> started;
  {
    MutexLock lock(mutex_);
    others_.push_back(fresh);
  }
  fresh->instance->Start(
      *listener_,
      [&](Status status) {
        MutexLock lock(mutex_);
        started = std::move(status);
        changed_.NotifyAll();
      },
      on_idle_);
  bool told_to_stop = false;
  Status status;
  {
    MutexLock lock(mutex_);
    while (!started) {
      if (stopping_ && !std::exchange(told_to_stop, true)) {
        const int64_t deadline_ns = stop_deadline_ns_;
        const MutexUnlock unlock(mutex_);
        fresh->instance->BeginStop(deadline_ns);
      }
      changed_.WaitFor(mutex_, std::chrono::seconds(1));
    }
    status = *started;
    if (!status.ok()) next_try_ns_ = SteadyNowNs() + kNextTryNs;
  }
  if (status.ok()) return fresh;
  fresh->instance->Join();
  Forget(fresh);
  if (!told_to_stop) {
    BRAID_LOG_ERROR(log_, "instance '{}' keeps its process; cannot start a new one: {}; next try in {} s",
                    options_.name, status.message(), kNextTryNs / 1'000'000'000);
  }
  return nullptr;
}

bool ReplaceableInstance::Hold(Worker& worker, int64_t deadline_ns) {
  MutexLock lock(mutex_);
  holding_ = true;
  while (!stopping_ && worker.available) {
    if (entering_ == 0 && worker.instance->returned()) return true;
    if (SteadyNowNs() >= deadline_ns) return false;
    WaitLocked(deadline_ns);
  }
  return false;
}

void ReplaceableInstance::LetGo() {
  MutexLock lock(mutex_);
  while (!held_.empty()) {
    std::unique_ptr<Execution> execution = std::move(held_.front());
    held_.pop_front();
    ++entering_;
    const WorkerPtr worker = current_;
    {
      const MutexUnlock unlock(mutex_);
      worker->instance->Execute(std::move(execution));
    }
    --entering_;
    if (stopping_) changed_.NotifyAll();
  }
  // Once the instance stops, BeginStop() returns new executions.
  holding_ = false;
}

bool ReplaceableInstance::TakeOver(const WorkerPtr& old, const WorkerPtr& fresh, size_t sequences) {
  std::vector<std::unique_ptr<Execution>> lost;
  if (sequences > 0) listener_->OnAvailability(*this, false);
  {
    MutexLock lock(mutex_);
    if (stopping_ || !old->available || !fresh->available) {
      if (sequences > 0 && old->available) {
        const MutexUnlock unlock(mutex_);
        listener_->OnAvailability(*this, true);
      }
      return false;
    }
    current_ = fresh;
    std::erase(others_, fresh);
    others_.push_back(old);
    const InstanceReport before = old->instance->report();
    executions_before_ += before.executions;
    restarts_before_ += before.restarts;
    if (sequences > 0) {
      lost.assign(std::make_move_iterator(held_.begin()), std::make_move_iterator(held_.end()));
      held_.clear();
    }
  }
  if (!lost.empty()) listener_->OnUnstarted(*this, std::move(lost));
  if (sequences > 0) listener_->OnAvailability(*this, true);
  return true;
}

void ReplaceableInstance::Forget(const WorkerPtr& worker) {
  MutexLock lock(mutex_);
  std::erase(others_, worker);
}

void ReplaceableInstance::Retire(const WorkerPtr& worker, bool bounded) {
  const int64_t deadline_ns = SteadyNowNs() + kEndingNs;
  bool late = false;
  int64_t end_ns = 0;
  {
    MutexLock lock(mutex_);
    const auto waits = [&] { return bounded && worker->available && !worker->instance->answered(); };
    while (waits() && SteadyNowNs() < deadline_ns && WaitLocked(deadline_ns)) {
    }
    late = !stopping_ && waits();
    end_ns = stopping_ ? stop_deadline_ns_ : SteadyNowNs() + kFinalizeNs;
  }
  worker->instance->BeginStop(end_ns);
  if (late) {
    worker->instance->End(
        "it exceeded --worker-memory-max-bytes and did not answer all its requests in time");
  }
  worker->instance->Join();
  Forget(worker);
}

void ReplaceableInstance::Replace(uint64_t bytes) {
  const int64_t begin_ns = SteadyNowNs();
  const WorkerPtr old = Current();
  BRAID_LOG_WARNING(log_,
                    "instance '{}' takes {} bytes of memory, more than {} (--worker-memory-max-bytes, "
                    "WORKER_MEMORY_MAX_BYTES); starting a new process",
                    options_.name, bytes, options_.memory_max_bytes);
  const WorkerPtr fresh = StartFresh();
  if (fresh == nullptr) return;
  const int64_t ready_ns = SteadyNowNs();
  const int64_t sequences_end_ns = ready_ns + kSequencesEndNs;
  bool held = false;
  bool taken = false;
  size_t sequences = 0;
  while ((held = Hold(*old, ready_ns + kEndingNs))) {
    const int64_t now_ns = SteadyNowNs();
    sequences = listener_->OnReplacing(*this, now_ns >= sequences_end_ns - kLastCallNs);
    if (sequences == 0 || now_ns >= sequences_end_ns) {
      taken = TakeOver(old, fresh, sequences);
      break;
    }
    LetGo();
    MutexLock lock(mutex_);
    const int64_t look_ns = now_ns + kSequencesNs;
    while (SteadyNowNs() < look_ns && WaitLocked(look_ns)) {
    }
  }
  LetGo();
  listener_->OnReplaced(*this);
  if (taken) {
    if (counters_ != nullptr) counters_->memory_replacements.fetch_add(1);
    if (sequences > 0) {
      BRAID_LOG_WARNING(log_,
                        "instance '{}' was replaced and lost {} sequences, which did not end within {} s",
                        options_.name, sequences, kSequencesEndNs / 1'000'000'000);
    }
    BRAID_LOG_INFO(log_, "instance '{}' has a new process after {} ms", options_.name,
                   (SteadyNowNs() - begin_ns) / 1'000'000);
    Retire(old, true);
  } else {
    bool died = false;
    {
      MutexLock lock(mutex_);
      died = stopping_ || !old->available;
    }
    // If it died, it restarts by itself.
    if (!held && !died) {
      if (counters_ != nullptr) counters_->memory_replacements.fetch_add(1);
      old->instance->End("it exceeded --worker-memory-max-bytes and did not return from execute() in time");
    }
    Retire(fresh, false);
  }
}

}  // namespace braid
