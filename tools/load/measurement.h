// Measurements of a load: samples of single requests, and figures of a time window.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "load/client.h"
#include "load/generator.h"

namespace braid::load {

// One answered request.
struct Sample {
  int64_t begin_ns = 0;
  int64_t end_ns = 0;
  int64_t first_ns = 0;    // arrival of its first response
  uint32_t responses = 0;  // of a chat completion: tokens
};

struct Samples {
  std::vector<Sample> answered;
  std::vector<int64_t> between_ns;         // between consecutive responses of a stream
  std::map<std::string, uint64_t> errors;  // counts by text
  uint64_t failed = 0;
  uint64_t timed_out = 0;
  uint64_t bytes_sent = 0;
  uint64_t bytes_received = 0;

  void Append(Samples&& other);
};

// Collects the samples of one thread; another thread takes them.
class SampleObserver : public LoadObserver {
 public:
  // `expected`: the outputs for each LoadRequest::step; an empty list is not compared. Outlives this.
  explicit SampleObserver(const std::vector<std::vector<Tensor>>& expected) : expected_(expected) {}

  Status OnResponse(const LoadRequest& request, const InferResponse& response, uint64_t nth) override;
  void OnAnswered(const Answer& answer) override;
  void OnFailed(int64_t begin_ns, int64_t end_ns, const Status& why, bool timed_out) override;

  // Returns the samples since the last call.
  Samples Take();

 private:
  const std::vector<std::vector<Tensor>>& expected_;
  mutable Mutex mutex_;
  Samples samples_ BRAID_GUARDED_BY(mutex_);
};

// Compares a response with the expected outputs. `placed`: outputs in shared memory.
Status CompareOutputs(const std::vector<Tensor>& expected, const InferResponse& response,
                      const std::vector<std::pair<std::string, std::string_view>>& placed);

// Statistics of a set of durations.
struct Latency {
  double mean_us = 0;
  double deviation_us = 0;
  double min_us = 0;
  double max_us = 0;
  std::map<int, double> percentiles_us;  // 50, 90, 95, 99 and the requested one

  double at(int percentile) const;
};

// Sorts `times_ns` and describes them. `percentile`: an additional one; 0: none.
Latency Describe(std::vector<int64_t>& times_ns, int percentile);

// Returns the value of a percentile. REQUIRES: `sorted_ns` is sorted.
int64_t PercentileOf(const std::vector<int64_t>& sorted_ns, double percentile);

// A bar of a histogram.
struct Bar {
  double from_us;
  double to_us;
  uint64_t count;
};

// Figures of one load over one window.
struct Figures {
  double seconds = 0;
  uint64_t requests = 0;
  double requests_per_s = 0;
  double inferences_per_s = 0;  // samples: requests count by their batch size
  double responses_per_s = 0;   // of chat completions: tokens
  Latency latency;
  std::optional<Latency> first_response;  // of streams
  std::optional<Latency> between_responses;
  uint64_t failed = 0;
  uint64_t timed_out = 0;
  std::map<std::string, uint64_t> errors;
  double megabytes_sent_per_s = 0;
  double megabytes_received_per_s = 0;
  std::optional<ServerStatistics> server;  // change over the window
  std::vector<Bar> histogram;
  std::vector<std::pair<double, double>> over_time;  // second of the window, median latency in us
};

struct FigureOptions {
  int64_t batch = 1;
  int percentile = 0;
  bool stream = false;
};

// Computes the figures of the samples that ended within the window [begin_ns, end_ns).
Figures MakeFigures(Samples samples, int64_t begin_ns, int64_t end_ns, const FigureOptions& options);

// Whether the last three measurements agree: each rate and latency (us) is within `percent` of their mean.
bool IsStable(const std::vector<std::pair<double, double>>& rates_and_latencies, double percent);

}  // namespace braid::load
