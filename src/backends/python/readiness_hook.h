// ReadinessHook: asks the is_ready() of one worker's user code, for any number of people who want to know.
//
// One check runs at a time. Whoever asks while one runs gets its result. Each waits for at most the time
// limit; the check itself goes on, since user code cannot be stopped.
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

// Any thread, where not said otherwise. Answers are given with no lock held.
class ReadinessHook {
 public:
  using Done = std::function<void(Readiness)>;
  static constexpr int64_t kTimeLimitNs = 5'000'000'000;

  explicit ReadinessHook(std::string instance) : instance_(std::move(instance)) {}

  // A worker whose user code has the hook can be asked from now on.
  void Open(std::shared_ptr<Channel> channel);
  // It no longer can; who waits is answered with `reason`.
  void Close(const std::string& reason);

  // Calls `done` once, perhaps before this returns. Ready at once while there is nobody to ask.
  void Ask(Done done, int64_t now_ns);

  // The worker has answered. An answer to a check that is not running is ignored: it may be one of before.
  void OnAnswer(const ReadinessMessage& message);
  // Answers callers whose time is over. Returns when to call it again; INT64_MAX while no caller waits.
  // Ask() interrupts the channel, so that its receiver calls this again.
  int64_t Expire(int64_t now_ns);

 private:
  struct Waiting {
    Done done;
    int64_t deadline_ns = 0;
    bool started = false;  // the check, rather than joined it
  };

  const std::string instance_;
  mutable Mutex mutex_;
  // Shared with the worker's instance; null while closed.
  std::shared_ptr<Channel> channel_ BRAID_GUARDED_BY(mutex_);
  uint64_t last_check_ BRAID_GUARDED_BY(mutex_) = 0;
  bool running_ BRAID_GUARDED_BY(mutex_) = false;
  std::vector<Waiting> waiting_ BRAID_GUARDED_BY(mutex_);  // by deadline
  std::atomic<bool> asked_{false};                         // false: no caller waits
};

}  // namespace braid
