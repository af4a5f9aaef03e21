// GraphSlots: limits the number of concurrent runs of one graph. Further runs wait in order.
//
//   if (slots.Take(waiter)) Start();      // else waiter->OnSlot() follows
//   ...
//   slots.Give();                          // when the run with the slot ends
#pragma once

#include <cstddef>
#include <deque>
#include <functional>
#include <memory>

#include "base/mutex.h"

namespace braid {

// Any thread; does not block.
class GraphSlots {
 public:
  class Waiter {
   public:
    // The waiter has a slot now. Called on the executor.
    virtual void OnSlot() = 0;

   protected:
    virtual ~Waiter() = default;
  };
  using Executor = std::function<void(std::function<void()> work)>;

  // `most` of 0 means no limit.
  GraphSlots(size_t most, Executor executor) : most_(most), executor_(std::move(executor)) {}

  // Returns true if a slot is free. Otherwise keeps the waiter alive and waiting until OnSlot() or
  // Withdraw().
  bool Take(std::shared_ptr<Waiter> waiter);
  // Ends its waiting; returns false if it is not waiting because it has a slot.
  bool Withdraw(const Waiter& waiter);
  // Returns a slot; the waiter that has waited longest gets it.
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
