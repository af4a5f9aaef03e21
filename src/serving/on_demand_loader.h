// OnDemandLoader: loads a model when a request asks for it (--load-on-demand). Implemented by repository/.
//
// A lookup of a model that is not loaded yet fails with Fault::kLoadsOnDemand. The caller keeps its request,
// asks for the load, and looks the model up again:
//
//   auto found = reader.Find(name, version);
//   if (found.status().fault() == Fault::kLoadsOnDemand) {
//     catalog.on_demand_loader()->Load(name, since_ns, [](Status loaded) { ... });   // then Find() again
//   }
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "base/status.h"

namespace braid {

// Numbers since the start, except for those that are there now.
struct OnDemandCounts {
  uint64_t loaded = 0;
  uint64_t failed = 0;
  uint64_t evicted = 0;             // models that were unloaded for want of memory
  uint64_t waiting = 0;             // requests, now
  uint64_t memory_bytes = 0;        // of the models, as last measured
  uint64_t memory_limit_bytes = 0;  // 0: none
};

class OnDemandLoader {
 public:
  // Loads a model, or joins its running load. Does not block. Calls `done` once, perhaps before this returns,
  // on any thread; it must not block. After OK the model was loaded, but may have been unloaded again since;
  // the caller then asks again with the same `since_ns`. That is the SteadyNowNs() at which the request first
  // asked; --load-wait-ms bounds all its waits together. A model that requests do not load is OK at once.
  // Errors: UNAVAILABLE with the load's error, which is repeated until the next try is due; if the wait takes
  // too long; or if the server exits.
  virtual void Load(const std::string& model, int64_t since_ns, std::function<void(Status)> done) = 0;

  // Whether requests load this model, which is not loaded now. Any thread; takes a lock.
  virtual bool Awaits(const std::string& model, int64_t version) const = 0;

  virtual OnDemandCounts counts() const = 0;

 protected:
  ~OnDemandLoader() = default;
};

}  // namespace braid
