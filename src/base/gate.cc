#include "base/gate.h"

#include <chrono>

#include "base/clock.h"

namespace braid {

void Gate::NotifyEmpty() {
  // Taking the mutex orders this after a waiter's check of the count. The notification therefore cannot fall
  // between the check and the wait.
  MutexLock lock(mutex_);
  empty_.NotifyAll();
}

bool Gate::WaitUntilEmpty(int64_t deadline_ns) {
  MutexLock lock(mutex_);
  while (inside() != 0) {
    int64_t left = deadline_ns - SteadyNowNs();
    if (left <= 0) return false;
    empty_.WaitFor(mutex_, std::chrono::nanoseconds(left));
  }
  return true;
}

}  // namespace braid
