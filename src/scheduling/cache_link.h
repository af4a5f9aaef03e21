// CacheLink: connects one loaded model to the response cache.
#pragma once

#include <memory>
#include <optional>

#include "scheduling/response_cache.h"
#include "scheduling/timer_service.h"
#include "serving/request.h"
#include "serving/servable.h"

namespace braid {

class CacheLink {
 public:
  // Returns null unless the model's configuration enables the cache and `cache` is not null. All arguments
  // outlive the link.
  static std::unique_ptr<CacheLink> Make(ResponseCache* cache, const ServableInfo& info,
                                         ModelStatistics& statistics, const Timers& timers);
  ~CacheLink() { cache_.Forget(load_); }

  // Returns the cached response to a checked request, as the model gave it, and records an answered request.
  // If there is none, the request remembers its key for Keep().
  std::optional<InferenceResponse> Find(InferenceRequest& request) const;
  // Caches a response of the model, before it is delivered. Errors are not cached.
  void Keep(InferenceRequest& request, const InferenceResponse& response) const;

 private:
  CacheLink(ResponseCache& cache, ModelStatistics& statistics, const Timers& timers)
      : cache_(cache), load_(cache.NextLoad()), statistics_(statistics), timers_(timers) {}

  ResponseCache& cache_;
  const uint64_t load_;
  ModelStatistics& statistics_;
  const Timers& timers_;
};

}  // namespace braid
