// What the operator chose of the isolation of models' processes.
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
  // --worker-isolation=LEVEL, and MODEL=LEVEL, which holds whatever the model asks for itself.
  IsolationLevel level = IsolationLevel::kBasic;
  std::map<std::string, IsolationLevel, std::less<>> models = {};
  // Of strict and separate: variables that are handed on (--worker-env), and what can be read or written beside the
  // interpreter and the model (--worker-path).
  std::vector<std::string> variables = {};
  std::vector<LandlockPath> paths = {};
  // Of separate: the users that workers run as, each by itself (--worker-user-ids). By default those that systemd
  // leaves to nobody.
  uint32_t first_user_id = 1879048192;
  uint32_t last_user_id = 1879052287;
  // Where each worker has a control group (--worker-cgroup), and what is written into it (--worker-cgroup-limit); empty: nowhere.
  std::string cgroup = {};
  std::vector<CgroupSetting> cgroup_settings = {};
};

// "MODEL=LEVEL" or "LEVEL" into `options`. Errors: INVALID_ARGUMENT.
Status SetIsolation(IsolationOptions& options, std::string_view text);

// Whether this machine keeps what `options` promise; makes their folder of control groups ready. Errors: FAILED_PRECONDITION: what
// it has not got for strict or separate, or for the groups. For basic it does what it can, see ReportIsolation().
Status CheckIsolation(const IsolationOptions& options);

// Level and control group of a model whose own configuration asks for the level `asked`; empty: it asks for nothing. Errors:
// INVALID_ARGUMENT: no level, or one below the server's, which is the operator's to choose.
// FAILED_PRECONDITION: as CheckIsolation().
Result<WorkerIsolation> IsolationOf(const IsolationOptions& options, std::string_view model,
                                    std::string_view asked);

}  // namespace braid
