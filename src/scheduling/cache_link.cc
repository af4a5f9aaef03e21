#include "scheduling/cache_link.h"

#include "model_config.pb.h"

namespace braid {

std::unique_ptr<CacheLink> CacheLink::Make(ResponseCache* cache, const ServableInfo& info,
                                           ModelStatistics& statistics, const Timers& timers) {
  if (cache == nullptr || info.config == nullptr || !info.config->response_cache().enable()) return nullptr;
  return std::unique_ptr<CacheLink>(new CacheLink(*cache, statistics, timers));
}

std::optional<InferenceResponse> CacheLink::Find(InferenceRequest& request) const {
  const int64_t before_ns = timers_.NowNs();
  CacheNotes& notes = request.scheduling.cache;
  const ResponseCache::Key key = cache_.KeyOf(load_, request);
  std::optional<InferenceResponse> found = cache_.Find(key);
  const int64_t now_ns = timers_.NowNs();
  if (found) {
    statistics_.RecordCacheHit(request.start_ns, now_ns, now_ns - before_ns);
  } else {
    notes = {.wanted = true, .key_low = key.low, .key_high = key.high, .lookup_ns = now_ns - before_ns};
  }
  return found;
}

void CacheLink::Keep(InferenceRequest& request, const InferenceResponse& response) const {
  CacheNotes& notes = request.scheduling.cache;
  if (!notes.wanted) return;
  notes.wanted = false;
  const int64_t before_ns = timers_.NowNs();
  if (response.status.ok()) cache_.Insert({notes.key_low, notes.key_high}, load_, response);
  statistics_.RecordCacheMiss(notes.lookup_ns + timers_.NowNs() - before_ns);
}

}  // namespace braid
