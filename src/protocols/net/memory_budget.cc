#include "protocols/net/memory_budget.h"

#include <string>

namespace braid {

Status MemoryBudget::Refused() {
  refusals_.Count(Limit::kMemory,
                  "requests hold " + std::to_string(MemoryUse()) + " of " + std::to_string(most_) + " bytes");
  return ResourceExhaustedError("the server's memory for requests is used up (--memory-max-bytes=" +
                                std::to_string(most_) + "); try again later");
}

}  // namespace braid
