// Rolling reload: reloads a model on one replica after the other, and rolls back if a replica fails.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/status.h"
#include "fleet/replica.h"

namespace braid::fleet {

struct ReloadOptions {
  std::string model;
  double load_s = 300;     // limit for one load
  double watch_s = 10;     // how long each replica is watched after its load
  double more_errors = 1;  // allowed rise of the failure rate, in percentage points
};

// Counts of a model's requests.
struct Outcomes {
  uint64_t succeeded = 0;
  uint64_t failed = 0;
  uint64_t all() const { return succeeded + failed; }
};

// Whether the failure rate since a load is acceptable: at most that of `before` plus `more_errors` percentage
// points. If `more_errors` is above 0, one failure is always allowed. True without requests.
bool ErrorsHold(const Outcomes& before, const Outcomes& since, double more_errors);

// How a replica that has loaded the model returns to the previous one.
enum class WayBack {
  kVersions,  // versions changed: load with a configuration that selects the previous ones
  kConfig,    // configuration changed: load with the previous one
  kNone,      // neither changed: files were replaced, and the server has no copies
};
WayBack WayBackOf(const ModelView& before, const ModelView& after);

// Returns the body of that load request. REQUIRES: not kNone.
std::string LoadBody(const ModelView& before, WayBack way);

// Checks all replicas first. Then loads the model on one, watches it, and continues with the next. On the
// first failure it rolls back all replicas that have loaded the model, as far as possible. Passes each step
// to `say` as one line, and each replica that cannot be rolled back. Blocks. Errors: INVALID_ARGUMENT if
// nothing was loaded; UNAVAILABLE after a rollback, complete or not.
Status RollingReload(const std::vector<Endpoint>& endpoints, const Asking& asking,
                     const ReloadOptions& options, const std::function<void(const std::string&)>& say);

}  // namespace braid::fleet
