// CustomMetrics: the registry of the metrics that user code creates, for all models and processes.
//
// A family is identified by its name, a series by its family and labels. Each lives while any process refers
// to it, and two processes that name the same series share it. A process holds its references in a session,
// which ends with the process, even after a crash.
//
//   auto session = metrics.Open();
//   BRAID_ASSIGN_OR_RETURN(auto family,
//                          session->CreateFamily("frames", "Frames seen", MetricKind::kCounter));
//   BRAID_ASSIGN_OR_RETURN(auto frames, session->CreateMetric(family, {{"camera", "2"}}, std::nullopt));
//   session->Increment(frames, 3);
//
// Processes send changes through a queue and do not wait. A scrape first waits until each session has applied
// the changes that were sent before the scrape. So code that changes a metric and then reads the page sees
// the change.
//
// This is not prometheus-cpp's registry: there, families and series have no shared references, and a bad name
// does not return an error.
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

// The numbers match MetricKind in Python.
enum class MetricKind : unsigned char { kCounter = 0, kGauge = 1, kHistogram = 2 };

// Returns "TRITONSERVER_METRIC_KIND_COUNTER" and the like.
std::string_view MetricKindName(MetricKind kind);

using MetricLabels = std::map<std::string, std::string>;

// One series, as a scrape sees it.
struct CustomSeriesSnapshot {
  MetricLabels labels;
  double value = 0;  // of a counter or gauge; the sum of a histogram
  // Of a histogram: its bounds, ascending, and for each the number of observations at or below it. `count` is
  // the total.
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

  // Both may be called from any thread.
  struct Progress {
    std::function<uint64_t()> sent;     // number of the last change sent; also triggers its application
    std::function<uint64_t()> handled;  // number of the last change that was applied
  };

  // Limits on names and labels, which come from user code and could otherwise fill the memory.
  static constexpr size_t kMostFamilies = 4096;
  static constexpr size_t kMostSeries = 65536;
  static constexpr size_t kMostLabelBytes = 4096;   // of a series, names and values
  static constexpr size_t kMostDescription = 4096;  // bytes; longer texts are cut

  CustomMetrics();
  // REQUIRES: all sessions have ended.
  ~CustomMetrics();

  // Opens the session of one process. It must end before this object. Without `progress`, the caller applies
  // changes.
  std::unique_ptr<Session> Open(Progress progress = {});

  // Returns the families that have series, by name. Waits up to kCatchUpNs for pending changes. Any thread
  // except those that apply changes.
  std::vector<CustomFamilySnapshot> Snapshot() const;

 private:
  static constexpr int64_t kCatchUpNs = 50'000'000;
  void AwaitChanges() const;

  struct Series;
  struct Family;

  void Drop(Series& series) BRAID_REQUIRES(mutex_);
  void Drop(Family& family) BRAID_REQUIRES(mutex_);

  // Guards families and references, but not the values of series.
  mutable Mutex mutex_;
  std::map<std::string, std::unique_ptr<Family>> families_ BRAID_GUARDED_BY(mutex_);
  size_t series_count_ BRAID_GUARDED_BY(mutex_) = 0;
  std::set<const Session*> sessions_ BRAID_GUARDED_BY(mutex_);
};

// The references of one process. Used by one thread at a time. Ids are local to the session and never 0. An
// unknown id is INVALID_ARGUMENT. Changing a value takes no lock that other threads hold for long.
class CustomMetrics::Session {
 public:
  // Releases all references.
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  // Returns the family of that name and creates it if needed; an existing description stays. Errors:
  // ALREADY_EXISTS if the family has another kind; INVALID_ARGUMENT for an invalid name; UNAVAILABLE beyond
  // kMostFamilies.
  Result<uint64_t> CreateFamily(const std::string& name, const std::string& description, MetricKind kind);
  // Returns the series with these labels and creates it if needed. `bounds` are a histogram's buckets, strictly
  // ascending, and nullopt for other kinds. An existing series keeps its bounds. Errors: INVALID_ARGUMENT for
  // invalid labels or bounds; UNAVAILABLE beyond kMostSeries.
  Result<uint64_t> CreateMetric(uint64_t family, const MetricLabels& labels,
                                const std::optional<std::vector<double>>& bounds);
  // Releases a family, and the series that were created through this reference. Ignores unknown ids.
  void DropFamily(uint64_t family);
  void DropMetric(uint64_t metric);

  // Errors: UNSUPPORTED for an operation that the kind does not have.
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
    uint64_t family = 0;  // the reference that created it
  };

  CustomMetrics& metrics_;
  const Progress progress_;
  uint64_t last_id_ = 0;
  std::map<uint64_t, Family*> families_;
  std::map<uint64_t, Reference> series_;
};

}  // namespace braid
