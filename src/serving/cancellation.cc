#include "serving/cancellation.h"

namespace braid {

void Cancellation::Cancel() {
  MutexLock lock(mutex_);
  if (cancelled_.exchange(true, std::memory_order_acq_rel)) return;
  if (listener_) listener_();
}

void Cancellation::SetListener(std::function<void()> listener) {
  MutexLock lock(mutex_);
  listener_ = std::move(listener);
  if (cancelled() && listener_) listener_();
}

void Cancellation::ClearListener() {
  MutexLock lock(mutex_);
  listener_ = nullptr;
}

}  // namespace braid
