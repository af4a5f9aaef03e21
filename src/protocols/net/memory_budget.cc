#include "protocols/net/memory_budget.h"

#include <string>

namespace braid {

Status MemoryBudget::Refused() {
  refused_.fetch_add(1, std::memory_order_relaxed);
  if (refusals_.Goes() && log_ != nullptr) {
    BRAID_LOG_WARNING(*log_, "requests are refused: they hold {} of {} bytes (--memory-max-bytes)",
                      MemoryUse(), most_);
  }
  return ResourceExhaustedError("the server's memory for requests is used up (--memory-max-bytes=" +
                                std::to_string(most_) + "); try again later");
}

}  // namespace braid
