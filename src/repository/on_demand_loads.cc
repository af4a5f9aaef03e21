#include "repository/on_demand_loads.h"

#include <algorithm>
#include <chrono>
#include <iterator>
#include <utility>

#include "base/clock.h"
#include "base/guard.h"
#include "base/thread.h"
#include "base/utf8.h"

namespace braid {
namespace {

Status Exiting() { return UnavailableError("Server exiting"); }

Status TookTooLong(const std::string& model, int64_t wait_ns) {
  return UnavailableError("model '" + Shortened(model) + "' was not loaded within " +
                          std::to_string(wait_ns / kMillisecondNs) + " ms (--load-wait-ms)");
}

Status CannotLoad(const std::string& model, const Status& fault) {
  std::string text = "model '" + Shortened(model) + "' cannot be loaded: " + fault.message();
  while (text.ends_with('\n')) text.pop_back();
  return UnavailableError(text);
}

}  // namespace

OnDemandLoads::~OnDemandLoads() {
  Shutdown();
  for (std::thread& thread : threads_) thread.join();
}

Status OnDemandLoads::Start() {
  for (int i = 0; i < options_.threads; ++i) {
    BRAID_ASSIGN_OR_RETURN(std::thread thread,
                           TryStartThread("brd-demand-" + std::to_string(i), [this] { RunLoads(); }));
    threads_.push_back(std::move(thread));
  }
  BRAID_ASSIGN_OR_RETURN(std::thread clock, TryStartThread("brd-demand", [this] { RunClock(); }));
  threads_.push_back(std::move(clock));
  return OkStatus();
}

void OnDemandLoads::Load(const std::string& model, int64_t since_ns, std::function<void(Status)> done) {
  if (!calls_.awaits(model, -1)) {
    done(OkStatus());
    return;
  }
  Status fault;
  {
    RetryingLock lock(mutex_);
    const int64_t now_ns = SteadyNowNs();
    const int64_t deadline_ns = since_ns + options_.wait_ns;
    Entry& entry = entries_[model];
    if (ending_) {
      fault = Exiting();
    } else if (!entry.fault.ok() && now_ns < entry.retry_ns) {
      fault = entry.fault;
    } else if (now_ns >= deadline_ns) {
      fault = TookTooLong(model, options_.wait_ns);
    }
    if (fault.ok()) {
      entry.waiters.push_back({deadline_ns, std::move(done)});
      ++counts_.waiting;
      if (!entry.queued) {
        entry.queued = true;
        queue_.push_back(model);
        queued_.NotifyOne();
      }
      changed_.NotifyAll();
      return;
    }
  }
  done(fault);
}

void OnDemandLoads::Forget(const std::string& model) {
  MutexLock lock(mutex_);
  const auto entry = entries_.find(model);
  if (entry == entries_.end()) return;
  entry->second.fault = OkStatus();
  entry->second.pause_ns = 0;
}

OnDemandCounts OnDemandLoads::counts() const {
  OnDemandCounts counts;
  {
    MutexLock lock(mutex_);
    counts = counts_;
  }
  calls_.count_memory(counts);
  return counts;
}

void OnDemandLoads::Shutdown() {
  std::vector<Waiter> waiters;
  {
    RetryingLock lock(mutex_);
    ending_ = true;
    for (auto& [model, entry] : entries_) {
      std::ranges::move(entry.waiters, std::back_inserter(waiters));
      entry.waiters.clear();
    }
    counts_.waiting = 0;
    queue_.clear();
    queued_.NotifyAll();
    changed_.NotifyAll();
  }
  for (Waiter& waiter : waiters) waiter.done(Exiting());
}

// ---- the loading threads ----

void OnDemandLoads::RunLoads() {
  MutexLock lock(mutex_);
  while (!ending_) {
    if (queue_.empty()) {
      queued_.Wait(mutex_);
    } else {
      LoadNext();
    }
  }
}

void OnDemandLoads::LoadNext() {
  const RetryingAllocation retrying;
  const std::string model = std::move(queue_.front());
  queue_.pop_front();
  int64_t deadline_ns = 0;
  for (const Waiter& waiter : entries_[model].waiters)
    deadline_ns = std::max(deadline_ns, waiter.deadline_ns);
  Outcome outcome;
  if (deadline_ns != 0) {  // otherwise all have left
    MutexUnlock unlock(mutex_);
    const Status fault = Guarded([&] { outcome = calls_.load(model, deadline_ns); });
    if (!fault.ok()) outcome.status = fault;
    if (!outcome.status.ok()) outcome.status = CannotLoad(model, outcome.status);
  }
  Entry& entry = entries_[model];
  entry.queued = false;
  std::vector<Waiter> waiters = std::exchange(entry.waiters, {});
  counts_.waiting -= waiters.size();
  if (outcome.status.ok()) {
    if (deadline_ns != 0) ++counts_.loaded;
    entries_.erase(model);
  } else {
    ++counts_.failed;
    entry.fault = outcome.pause ? outcome.status : OkStatus();
    entry.pause_ns = std::clamp(2 * entry.pause_ns, options_.first_pause_ns, options_.longest_pause_ns);
    entry.retry_ns = SteadyNowNs() + entry.pause_ns;
  }
  MutexUnlock unlock(mutex_);
  for (Waiter& waiter : waiters) waiter.done(outcome.status);
}

// ---- the clock ----

std::vector<OnDemandLoads::Waiter> OnDemandLoads::TakeExpiredLocked(int64_t now_ns, int64_t& next_ns) {
  std::vector<Waiter> expired;
  for (auto& [model, entry] : entries_) {
    std::vector<Waiter>& waiters = entry.waiters;
    const auto late = std::stable_partition(waiters.begin(), waiters.end(), [now_ns](const Waiter& waiter) {
      return waiter.deadline_ns > now_ns;
    });
    for (auto waiter = late; waiter != waiters.end(); ++waiter) {
      const Status fault = TookTooLong(model, options_.wait_ns);
      expired.push_back({0, [fault, done = std::move(waiter->done)](const Status&) { done(fault); }});
    }
    waiters.erase(late, waiters.end());
    for (const Waiter& waiter : entry.waiters) next_ns = std::min(next_ns, waiter.deadline_ns);
  }
  counts_.waiting -= expired.size();
  return expired;
}

void OnDemandLoads::RunClock() {
  int64_t refresh_ns = SteadyNowNs() + options_.refresh_ns;
  MutexLock lock(mutex_);
  while (!ending_) {
    const RetryingAllocation retrying;
    const int64_t now_ns = SteadyNowNs();
    int64_t next_ns = refresh_ns;
    std::vector<Waiter> expired = TakeExpiredLocked(now_ns, next_ns);
    if (!expired.empty() || now_ns >= refresh_ns) {
      MutexUnlock unlock(mutex_);
      for (Waiter& waiter : expired) waiter.done(OkStatus());
      if (now_ns >= refresh_ns) {
        GuardedOrReport("brd-demand", calls_.refresh);
        refresh_ns = SteadyNowNs() + options_.refresh_ns;
      }
      continue;
    }
    changed_.WaitFor(mutex_, std::chrono::nanoseconds(next_ns - now_ns));
  }
}

}  // namespace braid
