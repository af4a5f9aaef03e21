// How long requests take, beyond totals: histograms and quantiles. Both are off unless the operator asks for
// them, since they cost each request some time.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

namespace braid {

struct LatencyOptions {
  // The upper bounds of the time to the first response, in milliseconds, ascending; empty: no histogram.
  std::vector<double> first_response_bounds_ms;
  // Quantiles with their errors, e.g. {0.99, 0.001}; empty: no summaries.
  std::vector<std::pair<double, double>> quantiles;
  // The upper bounds of the histograms of the ovms_* metrics, in microseconds, ascending; empty: none.
  std::vector<double> ovms_bounds_us = {};
  // Whether a request has one response, so that its end is the time of the first.
  bool one_response = false;
};

// A time as the peers' metrics count it: whole microseconds, 0 for one that is negative.
inline double WholeMicroseconds(int64_t ns) {
  const int64_t whole = ns > 0 ? ns / 1000 : 0;
  return static_cast<double>(whole);
}

struct LatencyHistogram {
  std::vector<double> bounds;
  std::vector<uint64_t> counts;  // by bucket, not cumulative; one more than bounds
  double sum = 0;

  void Start(std::vector<double> of);
  void Observe(double value);
};

struct SummarySnapshot {
  uint64_t count = 0;
  double sum = 0;
  std::vector<std::pair<double, double>> quantiles;  // quantile and its value over the last minute
};

// Of the requests of one model that ended well, in microseconds.
struct LatencySummariesSnapshot {
  SummarySnapshot request;
  SummarySnapshot queue;
  SummarySnapshot compute_input;
  SummarySnapshot compute_infer;
  SummarySnapshot compute_output;
};

// Any thread; each observation takes locks of its own.
class LatencySummaries {
 public:
  explicit LatencySummaries(const std::vector<std::pair<double, double>>& quantiles);
  ~LatencySummaries();

  void Observe(int64_t request_ns, int64_t queue_ns, int64_t input_ns, int64_t infer_ns, int64_t output_ns);
  // A request that was answered from the cache, and neither waited nor ran.
  void ObserveCached(int64_t request_ns);
  LatencySummariesSnapshot Snapshot() const;

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace braid
