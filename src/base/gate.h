// A gate lets work in until it is closed, and tells when the last of it has left.
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

  // False once the gate is closed; otherwise the caller is inside until Leave().
  bool Enter() {
    if (state_.fetch_add(1, std::memory_order_acq_rel) & kClosed) {
      Leave();
      return false;
    }
    return true;
  }
  // Once more, even when the gate is closed meanwhile: for work that is a part of work inside. REQUIRES: the
  // caller is inside.
  void EnterAgain() { state_.fetch_add(1, std::memory_order_acq_rel); }
  void Leave() {
    if (state_.fetch_sub(1, std::memory_order_acq_rel) == (kClosed | 1)) NotifyEmpty();
  }

  // Refuses new work from now on. May be called more than once.
  void Close() { state_.fetch_or(kClosed, std::memory_order_acq_rel); }
  bool closed() const { return (state_.load(std::memory_order_acquire) & kClosed) != 0; }
  // How many are inside now.
  uint64_t inside() const { return state_.load(std::memory_order_acquire) & ~kClosed; }

  // Waits until nobody is inside, at most until `deadline_ns` (SteadyNowNs() time). True when empty.
  // REQUIRES: Close() was called.
  bool WaitUntilEmpty(int64_t deadline_ns);

 private:
  static constexpr uint64_t kClosed = uint64_t{1} << 63;

  void NotifyEmpty();

  std::atomic<uint64_t> state_{0};
  Mutex mutex_;  // only to wait on
  CondVar empty_;
};

}  // namespace braid
