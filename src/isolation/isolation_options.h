// IsolationOptions: the operator's settings for the isolation of models' processes.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/landlock.h"
#include "isolation/isolation_level.h"
#include "isolation/worker_cgroup.h"
#include "isolation/worker_isolation.h"

namespace braid {

struct IsolationOptions {
  // --worker-isolation=LEVEL, and MODEL=LEVEL, which overrides the model's own setting.
  IsolationLevel level = IsolationLevel::kBasic;
  std::map<std::string, IsolationLevel, std::less<>> models = {};
  // For strict and separate: environment variables to pass on (--worker-env), and paths beside the
  // interpreter and the model that can be read or written (--worker-path).
  std::vector<std::string> variables = {};
  std::vector<LandlockPath> paths = {};
  // For separate: the user ids of workers, one id per worker (--worker-user-ids). The default range is the
  // one that systemd leaves unused.
  uint32_t first_user_id = 1879048192;
  uint32_t last_user_id = 1879052287;
  // The parent of the workers' control groups (--worker-cgroup), and their settings (--worker-cgroup-limit).
  // Empty: no control groups.
  std::string cgroup = {};
  std::vector<CgroupSetting> cgroup_settings = {};
};

// Parses "MODEL=LEVEL" or "LEVEL" into `options`. Errors: INVALID_ARGUMENT.
Status SetIsolation(IsolationOptions& options, std::string_view text);

// Checks that this machine supports `options`, and prepares the folder of control groups. For basic, missing
// features are reported by ReportIsolation() instead. Errors: FAILED_PRECONDITION: a missing feature for
// strict, separate or control groups.
Status CheckIsolation(const IsolationOptions& options);

// Returns level and control group of a model. `asked` is the level in the model's configuration, or empty.
// Errors: INVALID_ARGUMENT if `asked` is unknown, or below the server's level, which only the operator may
// lower. FAILED_PRECONDITION: as CheckIsolation().
Result<WorkerIsolation> IsolationOf(const IsolationOptions& options, std::string_view model,
                                    std::string_view asked);

}  // namespace braid
