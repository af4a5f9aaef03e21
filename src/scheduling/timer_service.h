// Timers of the schedulers: one thread that runs callbacks at given times, and the clock for these times.
#pragma once

#include <compare>
#include <cstdint>
#include <functional>
#include <map>
#include <thread>

#include "base/mutex.h"

namespace braid {

// Identifies a timer. The default identifies none.
struct TimerId {
  int64_t deadline_ns = 0;
  uint64_t number = 0;  // counts from 1
  auto operator<=>(const TimerId&) const = default;
  explicit operator bool() const { return number != 0; }
};

// A clock with timers. TimerService is the real one; tests use testing/manual_timers.h.
class Timers {
 public:
  virtual ~Timers() = default;

  virtual int64_t NowNs() const = 0;
  // Calls `callback` once, soon after NowNs() has reached `deadline_ns`, or at once if it is past. Callbacks
  // run one after the other, in the order of their deadlines, and must not block. Never calls back before it
  // returns.
  virtual TimerId At(int64_t deadline_ns, std::function<void()> callback) = 0;
  // Removes a timer whose callback has not begun; returns false if it has begun or ended. Never waits, so it
  // may be called under locks that callbacks take.
  virtual bool Withdraw(TimerId id) = 0;
  // Like Withdraw(), and waits for a running callback to end, unless called from that callback.
  virtual void Cancel(TimerId id) = 0;
};

class TimerService final : public Timers {
 public:
  TimerService();
  // Remaining timers never fire.
  ~TimerService() override;

  // Returns SteadyNowNs().
  int64_t NowNs() const override;
  // Any thread. Wakes the timers' thread only if the new deadline is the earliest.
  TimerId At(int64_t deadline_ns, std::function<void()> callback) override;
  bool Withdraw(TimerId id) override;
  void Cancel(TimerId id) override;

 private:
  void Run();

  Mutex mutex_;
  CondVar wake_;   // the thread waits on it
  CondVar ended_;  // Cancel() waits on it

  std::map<TimerId, std::function<void()>> timers_ BRAID_GUARDED_BY(mutex_);  // by deadline
  uint64_t last_number_ BRAID_GUARDED_BY(mutex_) = 0;
  TimerId running_ BRAID_GUARDED_BY(mutex_);
  int64_t sleeps_until_ns_ BRAID_GUARDED_BY(mutex_) = 0;  // 0 while the thread is awake
  bool stopping_ BRAID_GUARDED_BY(mutex_) = false;

  std::thread thread_;
};

}  // namespace braid
