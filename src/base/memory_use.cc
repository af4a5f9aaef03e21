#include "base/memory_use.h"

#include <algorithm>
#include <atomic>
#include <cstdlib>

namespace braid {
namespace {

constexpr int64_t kKept = int64_t{64} << 10;

std::atomic<int64_t> total{0};
thread_local int64_t kept = 0;  // changes of this thread, not yet in `total`

void Pass() noexcept { total.fetch_add(std::exchange(kept, 0), std::memory_order_relaxed); }

// Adds the thread's changes to `total` when it ends.
struct AtThreadEnd {
  ~AtThreadEnd() { Pass(); }
};

}  // namespace

void AddMemoryUse(int64_t bytes) noexcept {
  static thread_local const AtThreadEnd at_end;
  kept += bytes;
  if (std::abs(kept) >= kKept) Pass();
}

size_t MemoryUse() noexcept {
  return static_cast<size_t>(std::max<int64_t>(0, total.load(std::memory_order_relaxed)));
}

}  // namespace braid
