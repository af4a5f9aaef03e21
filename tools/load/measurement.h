// What the requests of a load have shown: samples as they come, and figures of a window of time.
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

// A request that was answered.
struct Sample {
  int64_t begin_ns = 0;
  int64_t end_ns = 0;
  int64_t first_ns = 0;  // when its first response came
  uint32_t responses = 0;
};

struct Samples {
  std::vector<Sample> answered;
  std::vector<int64_t> between_ns;         // from a response of a stream to the next one
  std::map<std::string, uint64_t> errors;  // by text
  uint64_t failed = 0;
  uint64_t timed_out = 0;
  uint64_t bytes_sent = 0;
  uint64_t bytes_received = 0;

  void Append(Samples&& other);
};

// Gathers the samples of one thread; another one takes them.
class SampleObserver : public LoadObserver {
 public:
  // `expected`: the outputs of each step of LoadRequest; none: they are not compared. Outlives this.
  explicit SampleObserver(const std::vector<std::vector<Tensor>>& expected) : expected_(expected) {}

  Status OnResponse(const LoadRequest& request, const InferResponse& response, uint64_t nth) override;
  void OnAnswered(const Answer& answer) override;
  void OnFailed(int64_t begin_ns, int64_t end_ns, const Status& why, bool timed_out) override;

  // What has come since the last call.
  Samples Take();

 private:
  const std::vector<std::vector<Tensor>>& expected_;
  mutable Mutex mutex_;
  Samples samples_ BRAID_GUARDED_BY(mutex_);
};

// Compares what a response has with what it should have. `placed`: outputs that lie in shared memory.
Status CompareOutputs(const std::vector<Tensor>& expected, const InferResponse& response,
                      const std::vector<std::pair<std::string, std::string_view>>& placed);

// What a number of times is like.
struct Latency {
  double mean_us = 0;
  double deviation_us = 0;
  double min_us = 0;
  double max_us = 0;
  std::map<int, double> percentiles_us;  // 50, 90, 95, 99 and what was asked for

  double at(int percentile) const;
};

// Sorts `times_ns`. `percentile`: one more; 0: none.
Latency Describe(std::vector<int64_t>& times_ns, int percentile);

// The value below which `percentile` of a hundred lie, of times in order.
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
  double inferences_per_s = 0;  // samples of batches
  double responses_per_s = 0;
  Latency latency;
  std::optional<Latency> first_response;  // of streams
  std::optional<Latency> between_responses;
  uint64_t failed = 0;
  uint64_t timed_out = 0;
  std::map<std::string, uint64_t> errors;
  double megabytes_sent_per_s = 0;
  double megabytes_received_per_s = 0;
  std::optional<ServerStatistics> server;  // over the window
  std::vector<Bar> histogram;
  std::vector<std::pair<double, double>> over_time;  // second of the window, median latency in us
};

struct FigureOptions {
  int64_t batch = 1;
  int percentile = 0;
  bool stream = false;
};

// Of the samples that ended within the window, [begin_ns, end_ns).
Figures MakeFigures(Samples samples, int64_t begin_ns, int64_t end_ns, const FigureOptions& options);

// Whether the last three of a row of measurements agree: rate and latency (us) of each lie within `percent` of their mean.
bool IsStable(const std::vector<std::pair<double, double>>& rates_and_latencies, double percent);

}  // namespace braid::load
