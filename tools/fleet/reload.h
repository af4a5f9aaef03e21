// A model loaded anew by one replica after the other, as far as all goes well.
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
  double load_s = 300;     // that one load may take
  double watch_s = 10;     // that each replica is watched after its load, before the next one's
  double more_errors = 1;  // percent of the requests that may fail beyond those that failed before
};

// Requests of the model.
struct Outcomes {
  uint64_t succeeded = 0;
  uint64_t failed = 0;
  uint64_t all() const { return succeeded + failed; }
};

// Whether the failures since a load are as before: of `since`, no more than the part that failed in `before` and `more_errors` percent
// beyond, and one request at least. Without requests since then it is so.
bool ErrorsHold(const Outcomes& before, const Outcomes& since, double more_errors);

// How a replica that has loaded the model is brought back to what it served.
enum class WayBack {
  kVersions,  // its versions were others: a load with a configuration that asks for these
  kConfig,    // its configuration was another one: a load with that
  kNone,      // both are what they were: files were replaced where they lie, and the server has no others
};
WayBack WayBackOf(const ModelView& before, const ModelView& after);

// The body of the load request for that. REQUIRES: not kNone.
std::string LoadBody(const ModelView& before, WayBack way);

// Looks at all replicas, then loads, watches, and goes on to the next; at the first that does not hold, all that were loaded are brought
// back as far as can be. `say` is told each step, and what cannot be taken back, in one line. Blocks. Errors: INVALID_ARGUMENT when nothing
// was begun; UNAVAILABLE when it went back, or could not.
Status RollingReload(const std::vector<Endpoint>& endpoints, const Asking& asking,
                     const ReloadOptions& options, const std::function<void(const std::string&)>& say);

}  // namespace braid::fleet
