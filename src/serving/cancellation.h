// Cancellation: carries a client's disconnect or cancel from the socket to the request's present owner.
#pragma once

#include <atomic>
#include <functional>
#include <memory>

#include "base/mutex.h"

namespace braid {

// Shared by the protocol's call, which cancels, and the request's present owner, which listens.
class Cancellation {
 public:
  // Marks the request as cancelled and calls the listener, once. Returns after the listener has. Any thread.
  void Cancel();
  bool cancelled() const { return cancelled_.load(std::memory_order_acquire); }

  // Sets the listener and replaces the previous one. An already cancelled request calls it at once. After
  // ClearListener() returns, the listener is not running and will not run. REQUIRES: the listener does not
  // call back into this object and does not block.
  void SetListener(std::function<void()> listener);
  void ClearListener();

 private:
  std::atomic<bool> cancelled_{false};
  Mutex mutex_;
  // Called while the mutex is held, so that ClearListener() can wait for a running call.
  std::function<void()> listener_ BRAID_GUARDED_BY(mutex_);
};

}  // namespace braid
