// CacheLink: what ties one loaded model to the response cache.
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
  // Null unless the model's configuration asks for the cache and there is one. All outlive the link.
  static std::unique_ptr<CacheLink> Make(ResponseCache* cache, const ServableInfo& info,
                                         ModelStatistics& statistics, const Timers& timers);
  ~CacheLink() { cache_.Forget(load_); }

  // The response that a checked request had before, as the model gave it; recorded as an answered request.
  // Nothing when there is none; then the request remembers its key for Keep().
  std::optional<InferenceResponse> Find(InferenceRequest& request) const;
  // Keeps a response of the model, before it is delivered. Errors are not kept.
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
