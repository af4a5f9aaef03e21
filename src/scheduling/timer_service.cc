#include "scheduling/timer_service.h"

#include <sys/prctl.h>

#include <chrono>
#include <limits>

#include "base/clock.h"
#include "base/guard.h"
#include "base/thread.h"

namespace braid {
namespace {

// The kernel may wake the thread this late. The default of 50 us would be noticeable in queue delays of 100
// us.
constexpr unsigned long kTimerSlackNs = 1000;

}  // namespace

TimerService::TimerService() {
  thread_ = StartThread("brd-sched", [this] { Run(); });
}

TimerService::~TimerService() {
  {
    MutexLock lock(mutex_);
    stopping_ = true;
    wake_.NotifyOne();
  }
  thread_.join();
}

int64_t TimerService::NowNs() const { return SteadyNowNs(); }

TimerId TimerService::At(int64_t deadline_ns, std::function<void()> callback) {
  RetryingLock lock(mutex_);
  const TimerId id{deadline_ns, ++last_number_};
  timers_.emplace(id, std::move(callback));
  if (deadline_ns < sleeps_until_ns_) wake_.NotifyOne();
  return id;
}

bool TimerService::Withdraw(TimerId id) {
  std::function<void()> callback;  // destroyed after the lock is released: it may own anything
  MutexLock lock(mutex_);
  auto entry = timers_.find(id);
  if (entry == timers_.end()) return false;
  callback = std::move(entry->second);
  timers_.erase(entry);
  return true;
}

void TimerService::Cancel(TimerId id) {
  if (Withdraw(id) || std::this_thread::get_id() == thread_.get_id()) return;
  MutexLock lock(mutex_);
  while (id && running_ == id) ended_.Wait(mutex_);
}

void TimerService::Run() {
  prctl(PR_SET_TIMERSLACK, kTimerSlackNs, 0, 0, 0);
  MutexLock lock(mutex_);
  while (!stopping_) {
    if (timers_.empty()) {
      sleeps_until_ns_ = std::numeric_limits<int64_t>::max();
      wake_.Wait(mutex_);
    } else if (const int64_t deadline_ns = timers_.begin()->first.deadline_ns; deadline_ns > SteadyNowNs()) {
      sleeps_until_ns_ = deadline_ns;
      // SteadyNowNs() and steady_clock are one clock.
      wake_.WaitUntil(mutex_, std::chrono::steady_clock::time_point(std::chrono::nanoseconds(deadline_ns)));
    } else {
      sleeps_until_ns_ = 0;
      auto entry = timers_.extract(timers_.begin());
      running_ = entry.key();
      lock.Unlock();
      GuardedOrReport("brd-sched", entry.mapped());
      entry = {};
      lock.Lock();
      running_ = {};
      ended_.NotifyAll();
    }
  }
}

}  // namespace braid
