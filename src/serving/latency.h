// Histograms and quantiles of request latency. Both are off by default, since they cost each request some
// time.
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
  // Whether each request has one response, so that the end of the request counts as the first response.
  bool one_response = false;
};

// Returns a duration as Triton and OpenVINO Model Server count it: whole microseconds, negative ones as 0.
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

// Successful requests of one model, in microseconds.
struct LatencySummariesSnapshot {
  SummarySnapshot request;
  SummarySnapshot queue;
  SummarySnapshot compute_input;
  SummarySnapshot compute_infer;
  SummarySnapshot compute_output;
};

// Thread-safe; each observation takes its own locks.
class LatencySummaries {
 public:
  explicit LatencySummaries(const std::vector<std::pair<double, double>>& quantiles);
  ~LatencySummaries();

  void Observe(int64_t request_ns, int64_t queue_ns, int64_t input_ns, int64_t infer_ns, int64_t output_ns);
  // Observes a request that was answered from the cache, without waiting or running.
  void ObserveCached(int64_t request_ns);
  LatencySummariesSnapshot Snapshot() const;

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace braid
