#include "mediapipe_graph/graph_slots.h"

#include <algorithm>
#include <utility>

namespace braid {

bool GraphSlots::Take(std::shared_ptr<Waiter> waiter) {
  MutexLock lock(mutex_);
  if (most_ == 0 || taken_ < most_) {
    ++taken_;
    return true;
  }
  waiters_.push_back(std::move(waiter));
  return false;
}

bool GraphSlots::Withdraw(const Waiter& waiter) {
  std::shared_ptr<Waiter> gone;  // destroyed without the lock
  MutexLock lock(mutex_);
  const auto at = std::find_if(waiters_.begin(), waiters_.end(),
                               [&waiter](const auto& one) { return one.get() == &waiter; });
  if (at == waiters_.end()) return false;
  gone = std::move(*at);
  waiters_.erase(at);
  return true;
}

void GraphSlots::Give() {
  std::shared_ptr<Waiter> next;
  {
    MutexLock lock(mutex_);
    if (waiters_.empty()) {
      --taken_;
      return;
    }
    next = std::move(waiters_.front());
    waiters_.pop_front();
  }
  // On the executor: a run that ends at once would otherwise give its slot to the next within this call, and
  // so on.
  executor_([next = std::move(next)] { next->OnSlot(); });
}

size_t GraphSlots::waiting() const {
  MutexLock lock(mutex_);
  return waiters_.size();
}

size_t GraphSlots::taken() const {
  MutexLock lock(mutex_);
  return taken_;
}

}  // namespace braid
