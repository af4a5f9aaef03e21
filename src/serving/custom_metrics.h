// CustomMetrics: the metrics that user code makes for itself, of all models and all their processes.
//
// A family is known by its name and lives while any process refers to it; a series is known by its family and
// its labels and lives while any process refers to it. Two processes that name the same series share it. A
// process refers to them by a session, which ends with it, however it ends.
//
//   auto session = metrics.Open();
//   BRAID_ASSIGN_OR_RETURN(auto family, session->CreateFamily("frames", "Frames seen",
//   MetricKind::kCounter)); BRAID_ASSIGN_OR_RETURN(auto frames, session->CreateMetric(family, {{"camera",
//   "2"}}, std::nullopt)); session->Increment(frames, 3);
//
// Changes of a value come over a queue that its process does not wait for, so a scrape first lets each session
// catch up with what its process had sent when the scrape began: code that changes a metric and then reads the
// page sees the change.
//
// A registry of its own and not prometheus-cpp's, whose families and series know no shared references and do
// not come back with an error for a bad name.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "base/status.h"

namespace braid {

// The numbers are those of MetricKind in Python.
enum class MetricKind : unsigned char { kCounter = 0, kGauge = 1, kHistogram = 2 };

// "TRITONSERVER_METRIC_KIND_COUNTER" and the like.
std::string_view MetricKindName(MetricKind kind);

using MetricLabels = std::map<std::string, std::string>;

// What a scrape sees of a series.
struct CustomSeriesSnapshot {
  MetricLabels labels;
  double value = 0;  // of a counter or gauge; the sum of a histogram
  // Of a histogram: its bounds, ascending, and how many observations were not above each; `count` are all.
  std::vector<double> bounds;
  std::vector<uint64_t> cumulative;
  uint64_t count = 0;
};

struct CustomFamilySnapshot {
  std::string name;
  std::string description;
  MetricKind kind = MetricKind::kCounter;
  std::vector<CustomSeriesSnapshot> series;  // by their labels
};

class CustomMetrics {
 public:
  class Session;

  // Called by any thread.
  struct Progress {
    std::function<uint64_t()> sent;     // how far a process has sent; has what it sent applied soon
    std::function<uint64_t()> handled;  // how far that has been applied
  };

  // More are refused: names and labels come from user code and would fill the memory.
  static constexpr size_t kMostFamilies = 4096;
  static constexpr size_t kMostSeries = 65536;
  static constexpr size_t kMostLabelBytes = 4096;   // of a series, names and values
  static constexpr size_t kMostDescription = 4096;  // bytes; what is longer is cut

  CustomMetrics();
  // REQUIRES: all sessions have ended.
  ~CustomMetrics();

  // The references of one process. Must end before this. Without `progress`, changes are applied by the caller.
  std::unique_ptr<Session> Open(Progress progress = {});

  // The families that have series, by name. Any thread but those that apply changes; waits for them up to
  // kCatchUpNs.
  std::vector<CustomFamilySnapshot> Snapshot() const;

 private:
  static constexpr int64_t kCatchUpNs = 50'000'000;
  void AwaitChanges() const;

  struct Series;
  struct Family;

  void Drop(Series& series) BRAID_REQUIRES(mutex_);
  void Drop(Family& family) BRAID_REQUIRES(mutex_);

  // Guards the families, who refers to what, and no value of a series.
  mutable Mutex mutex_;
  std::map<std::string, std::unique_ptr<Family>> families_ BRAID_GUARDED_BY(mutex_);
  size_t series_count_ BRAID_GUARDED_BY(mutex_) = 0;
  std::set<const Session*> sessions_ BRAID_GUARDED_BY(mutex_);
};

// Belongs to one thread at a time. Ids are of the session and never 0; operations with an id that it does not
// have are INVALID_ARGUMENT. Values are changed without a lock that others hold for long.
class CustomMetrics::Session {
 public:
  // Lets go of all it refers to.
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  // The family of that name, made when there is none; the first description stays.
  // Errors: INVALID_ARGUMENT for another kind than it has, or a name that cannot be.
  Result<uint64_t> CreateFamily(const std::string& name, const std::string& description, MetricKind kind);
  // The series with these labels. `bounds` are the buckets of a histogram, strictly ascending, and of nothing
  // else; those of a series that is there already stay.
  Result<uint64_t> CreateMetric(uint64_t family, const MetricLabels& labels,
                                const std::optional<std::vector<double>>& bounds);
  // Lets go of a family, and of the series that were made by this reference to it. Unknown ids do nothing.
  void DropFamily(uint64_t family);
  void DropMetric(uint64_t metric);

  // Errors: UNSUPPORTED for what the kind cannot do.
  Status Increment(uint64_t metric, double by);
  Status Set(uint64_t metric, double value);
  Status Observe(uint64_t metric, double value);
  Result<double> Value(uint64_t metric) const;

 private:
  friend class CustomMetrics;
  Session(CustomMetrics& metrics, Progress progress);
  Result<Series*> Find(uint64_t metric) const;

  struct Reference {
    Series* series = nullptr;
    uint64_t family = 0;  // the reference that it was made by
  };

  CustomMetrics& metrics_;
  const Progress progress_;
  uint64_t last_id_ = 0;
  std::map<uint64_t, Family*> families_;
  std::map<uint64_t, Reference> series_;
};

}  // namespace braid
