#include "base/gate.h"

#include <chrono>

#include "base/clock.h"

namespace braid {

void Gate::NotifyEmpty() {
  // Taking the mutex orders this after a waiter's look at the count, so the wake-up cannot fall between look
  // and sleep.
  std::lock_guard lock(mutex_);
  empty_.notify_all();
}

bool Gate::WaitUntilEmpty(int64_t deadline_ns) {
  std::unique_lock lock(mutex_);
  while (inside() != 0) {
    int64_t left = deadline_ns - SteadyNowNs();
    if (left <= 0) return false;
    empty_.wait_for(lock, std::chrono::nanoseconds(left));
  }
  return true;
}

}  // namespace braid
