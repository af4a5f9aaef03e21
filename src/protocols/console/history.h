// ConsoleHistory: the counters of the server and of each version, every two seconds of the last ten minutes.
//
// Counters only grow. A version's counters continue after a reload, and the server's after an unload. A
// sample equal to the previous one takes no memory. So a thousand models of which ten are active cost as much
// as those ten.
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

// Counted since the first sample of the version.
struct HistoryCounters {
  uint64_t requests = 0;  // that succeeded
  uint64_t failures = 0;
  uint64_t request_us = 0;
  uint64_t queue_us = 0;
  uint64_t compute_us = 0;
  uint64_t executions = 0;
  int64_t pending = 0;  // at the time of the sample

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
  // Versions beyond this limit count only for the server.
  static constexpr size_t kMostSeries = 2000;

  // Takes a sample of all served versions. Called every kStepMs by one thread. Takes the lock of each
  // version's statistics briefly.
  void Sample(const Catalog& catalog, int64_t now_ms);

  // Returns the samples, oldest first. Any thread.
  std::vector<HistorySample> OfServer() const;
  // Returns no samples for a version that was not served in this time.
  std::vector<HistorySample> Of(const std::string& model, int64_t version) const;

 private:
  using Key = std::pair<std::string, int64_t>;
  // The samples that differ from their predecessors.
  struct Series {
    std::deque<std::pair<uint64_t, HistoryCounters>> changes;  // by number of the sample
    HistoryCounters last;
    uint64_t last_seen = 0;  // number of the sample
  };
  // A version that is served now.
  struct Source {
    std::weak_ptr<Servable> servable;
    HistoryCounters counted;  // its counters at the last sample
    HistoryCounters before;   // the counters of earlier loads of this version
    uint64_t last_seen = 0;
  };

  void Append(Series& series, const HistoryCounters& counters) BRAID_REQUIRES(mutex_);
  std::vector<HistorySample> Expand(const Series& series) const BRAID_REQUIRES(mutex_);

  mutable Mutex mutex_;
  std::deque<int64_t> times_ms_ BRAID_GUARDED_BY(mutex_);  // of the kept samples
  uint64_t next_sample_ BRAID_GUARDED_BY(mutex_) = 0;
  Series server_ BRAID_GUARDED_BY(mutex_);
  std::map<Key, Series> series_ BRAID_GUARDED_BY(mutex_);
  std::map<Key, Source> sources_ BRAID_GUARDED_BY(mutex_);
};

}  // namespace braid
