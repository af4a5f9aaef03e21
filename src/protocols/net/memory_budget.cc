#include "protocols/net/memory_budget.h"

#include <string>

#include "base/clock.h"

namespace braid {

bool MemoryBudget::HoldsBack(int64_t& since_ns) {
  constexpr int64_t kMostWaitNs = 1'000'000'000;
  if (!tight()) {
    since_ns = 0;
    return false;
  }
  const int64_t now_ns = SteadyNowNs();
  if (since_ns == 0) {
    since_ns = now_ns;
    waited_.fetch_add(1, std::memory_order_relaxed);
  }
  return now_ns - since_ns < kMostWaitNs;
}

Status MemoryBudget::Refused() {
  refusals_.Count(Limit::kMemory,
                  "requests hold " + std::to_string(MemoryUse()) + " of " + std::to_string(most_) + " bytes");
  return ResourceExhaustedError("the server's memory for requests is used up (--memory-max-bytes=" +
                                std::to_string(most_) + "); try again later");
}

}  // namespace braid
