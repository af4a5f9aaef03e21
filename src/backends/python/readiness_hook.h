// ReadinessHook: calls is_ready() of one worker's user code for any number of concurrent checks.
//
// Only one is_ready() runs at a time. A check that arrives meanwhile gets its result. Each check waits at
// most the time limit; is_ready() itself goes on, since user code cannot be interrupted.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "ipc/channel.h"
#include "ipc/messages.h"
#include "serving/servable.h"

namespace braid {

// Any thread, unless a method says otherwise. Callbacks run with no lock held.
class ReadinessHook {
 public:
  using Done = std::function<void(Readiness)>;
  static constexpr int64_t kTimeLimitNs = 5'000'000'000;

  explicit ReadinessHook(std::string instance) : instance_(std::move(instance)) {}

  // Opens the hook: the worker is up, and its user code has is_ready().
  void Open(std::shared_ptr<Channel> channel);
  // Closes the hook; pending checks fail with `reason`.
  void Close(const std::string& reason);

  // Calls `done` once, perhaps before this returns. Ready at once while the hook is closed.
  void Ask(Done done, int64_t now_ns);

  // Handles an answer of the worker. An answer to a check that is not running is ignored: it is from an
  // earlier one.
  void OnAnswer(const ReadinessMessage& message);
  // Fails overdue checks. Returns when to call it again; INT64_MAX without pending checks. Ask() interrupts the
  // channel, so that the receiving thread calls this again.
  int64_t Expire(int64_t now_ns);

 private:
  struct Waiting {
    Done done;
    int64_t deadline_ns = 0;
    bool started = false;  // started is_ready(), rather than joined it
  };

  const std::string instance_;
  mutable Mutex mutex_;
  // Shared with the worker's instance; null while closed.
  std::shared_ptr<Channel> channel_ BRAID_GUARDED_BY(mutex_);
  uint64_t last_check_ BRAID_GUARDED_BY(mutex_) = 0;
  bool running_ BRAID_GUARDED_BY(mutex_) = false;
  std::vector<Waiting> waiting_ BRAID_GUARDED_BY(mutex_);  // sorted by deadline
  std::atomic<bool> asked_{false};                         // false: no check is pending
};

}  // namespace braid
