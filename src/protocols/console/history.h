// ConsoleHistory: what the counters of the server and of each version were, every two seconds of the last ten minutes.
//
// Counters go on where a version is loaded anew, and those of the server where one is unloaded: they only grow. A sample
// that is as the one before takes no memory, so that a thousand models of which ten have work cost as much as these.
#pragma once

#include <compare>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "serving/catalog.h"

namespace braid {

// Since the first look at the version.
struct HistoryCounters {
  uint64_t requests = 0;  // that ended well
  uint64_t failures = 0;
  uint64_t request_us = 0;
  uint64_t queue_us = 0;
  uint64_t compute_us = 0;
  uint64_t executions = 0;
  int64_t pending = 0;  // now

  bool operator==(const HistoryCounters&) const = default;
};

struct HistorySample {
  int64_t at_ms = 0;  // since 1970
  HistoryCounters counters;
};

class ConsoleHistory {
 public:
  static constexpr int64_t kStepMs = 2000;
  static constexpr size_t kSamples = 300;
  // Versions beyond these are in the counters of the server alone.
  static constexpr size_t kMostSeries = 2000;

  // Looks at all that is served now; to be called each kStepMs by one thread. Takes for each version the lock that its
  // counters have, for a moment.
  void Sample(const Catalog& catalog, int64_t now_ms);

  // The oldest first. Any thread.
  std::vector<HistorySample> OfServer() const;
  // Nothing for a version that was not looked at in this time.
  std::vector<HistorySample> Of(const std::string& model, int64_t version) const;

 private:
  using Key = std::pair<std::string, int64_t>;
  // Values at the samples where they were not those of the sample before.
  struct Series {
    std::deque<std::pair<uint64_t, HistoryCounters>> changes;  // by number of the sample
    HistoryCounters last;
    uint64_t last_seen = 0;  // number of the sample
  };
  // Of a version that is served now.
  struct Source {
    std::weak_ptr<Servable> servable;
    HistoryCounters counted;  // what it has counted so far
    HistoryCounters before;   // what those have that were this version before
    uint64_t last_seen = 0;
  };

  void Append(Series& series, const HistoryCounters& counters) BRAID_REQUIRES(mutex_);
  std::vector<HistorySample> Expand(const Series& series) const BRAID_REQUIRES(mutex_);

  mutable Mutex mutex_;
  std::deque<int64_t> times_ms_ BRAID_GUARDED_BY(mutex_);  // of the samples that are kept
  uint64_t next_sample_ BRAID_GUARDED_BY(mutex_) = 0;
  Series server_ BRAID_GUARDED_BY(mutex_);
  std::map<Key, Series> series_ BRAID_GUARDED_BY(mutex_);
  std::map<Key, Source> sources_ BRAID_GUARDED_BY(mutex_);
};

}  // namespace braid
