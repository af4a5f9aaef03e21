// Limits of the system (setrlimit) for worker processes, in the operator's notation: "data=8000000000".
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

// Errors: INVALID_ARGUMENT; the text lists the known names.
Result<WorkerLimit> ParseWorkerLimit(std::string_view text);

// Sets the soft and hard limits of a process that does not run user code yet. Errors: a limit beyond the
// server's own.
Status ApplyWorkerLimits(pid_t pid, const std::vector<WorkerLimit>& limits);

}  // namespace braid
