// GraphSlots: how many runs of one graph may be under way at once. Those beyond wait in order.
//
//   if (slots.Take(waiter)) Start();      // else waiter->OnSlot() follows
//   ...
//   slots.Give();                          // at the end of whoever got one
#pragma once

#include <cstddef>
#include <deque>
#include <functional>
#include <memory>

#include "base/mutex.h"

namespace braid {

// Any thread; nothing blocks.
class GraphSlots {
 public:
  class Waiter {
   public:
    // It has a slot now. Called on the executor.
    virtual void OnSlot() = 0;

   protected:
    virtual ~Waiter() = default;
  };
  using Executor = std::function<void(std::function<void()> work)>;

  // `most` of 0 is any number.
  GraphSlots(size_t most, Executor executor) : most_(most), executor_(std::move(executor)) {}

  // True: it has a slot at once. Else it is waiting, and kept alive, until OnSlot() or Withdraw().
  bool Take(std::shared_ptr<Waiter> waiter);
  // Ends its waiting; false when it does not wait (any more): it has a slot.
  bool Withdraw(const Waiter& waiter);
  // Gives a slot back; the one that waits longest gets it.
  void Give();

  size_t waiting() const;
  size_t taken() const;

 private:
  const size_t most_;
  const Executor executor_;
  mutable Mutex mutex_;
  size_t taken_ BRAID_GUARDED_BY(mutex_) = 0;
  std::deque<std::shared_ptr<Waiter>> waiters_ BRAID_GUARDED_BY(mutex_);
};

}  // namespace braid
