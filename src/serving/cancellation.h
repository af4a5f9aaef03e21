// How the end of a client's interest travels: from the socket to whoever works on the request now.
#pragma once

#include <atomic>
#include <functional>
#include <memory>

#include "base/mutex.h"

namespace braid {

// Shared between the protocol's call, which cancels, and the request's present owner, which listens.
class Cancellation {
 public:
  // Marks the request as cancelled and tells the listener, once. Any thread; returns after the listener has.
  void Cancel();
  bool cancelled() const { return cancelled_.load(std::memory_order_acquire); }

  // Sets who is told; replaces the one before. When already cancelled, the listener is called at once. After
  // ClearListener() returns, the listener is neither running nor will run.
  // The listener must not call back into this object, and must not block.
  void SetListener(std::function<void()> listener);
  void ClearListener();

 private:
  std::atomic<bool> cancelled_{false};
  Mutex mutex_;
  // Called with the mutex held, which is what makes ClearListener() final.
  std::function<void()> listener_ BRAID_GUARDED_BY(mutex_);
};

}  // namespace braid
