// Gate: admits work until it is closed, and reports when the last work has left.
//
//   Gate gate;
//   if (!gate.Enter()) return Unavailable;   // any thread; two atomic operations, no lock
//   ... work ...
//   gate.Leave();
//   // elsewhere, once:
//   gate.Close();
//   bool empty = gate.WaitUntilEmpty(deadline_ns);
#pragma once

#include <atomic>
#include <cstdint>

#include "base/mutex.h"

namespace braid {

class Gate {
 public:
  Gate() = default;
  Gate(const Gate&) = delete;
  Gate& operator=(const Gate&) = delete;

  // Returns false if the gate is closed. Otherwise the caller is inside until Leave().
  bool Enter() {
    if (state_.fetch_add(1, std::memory_order_acq_rel) & kClosed) {
      Leave();
      return false;
    }
    return true;
  }
  // Enters once more, even if the gate was closed meanwhile: for work that is part of work inside. REQUIRES:
  // the caller is inside.
  void EnterAgain() { state_.fetch_add(1, std::memory_order_acq_rel); }
  void Leave() {
    if (state_.fetch_sub(1, std::memory_order_acq_rel) == (kClosed | 1)) NotifyEmpty();
  }

  // Refuses new work from now on. May be called repeatedly.
  void Close() { state_.fetch_or(kClosed, std::memory_order_acq_rel); }
  bool closed() const { return (state_.load(std::memory_order_acquire) & kClosed) != 0; }
  // The number of callers inside now.
  uint64_t inside() const { return state_.load(std::memory_order_acquire) & ~kClosed; }

  // Waits until the gate is empty, or until `deadline_ns` (SteadyNowNs() time). Returns true if it is empty.
  // REQUIRES: Close() was called.
  bool WaitUntilEmpty(int64_t deadline_ns);

 private:
  static constexpr uint64_t kClosed = uint64_t{1} << 63;

  void NotifyEmpty();

  std::atomic<uint64_t> state_{0};
  Mutex mutex_;  // only for waiting
  CondVar empty_;
};

}  // namespace braid
