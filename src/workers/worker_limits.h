// Limits of the system (setrlimit) for the processes of models, as the operator writes them:
// "data=8000000000".
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace braid {

struct WorkerLimit {
  std::string name;  // as in the option
  int resource = 0;  // RLIMIT_...
  uint64_t value = 0;
};

// Errors: INVALID_ARGUMENT, saying which names there are.
Result<WorkerLimit> ParseWorkerLimit(std::string_view text);

// Sets the limits, soft and hard, of a process that has not begun to run user code. Errors: one that the
// server itself may not have.
Status ApplyWorkerLimits(pid_t pid, const std::vector<WorkerLimit>& limits);

}  // namespace braid
