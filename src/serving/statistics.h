// What a servable has done since it was loaded; the numbers of the statistics extension and of the metrics
// endpoint.
//
// Recorded before the response can be seen by its client. One short lock of the servable's own; nothing
// global.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "base/mutex.h"
#include "base/status.h"
#include "serving/api_counters.h"
#include "serving/latency.h"

namespace braid {

struct DurationStatistic {
  uint64_t count = 0;
  uint64_t ns = 0;
  void Add(int64_t duration_ns, uint64_t times = 1) {
    count += times;
    ns += duration_ns > 0 ? static_cast<uint64_t>(duration_ns) : 0;
  }
};

enum class FailureReason : unsigned char { kRejected = 0, kCanceled = 1, kBackend = 2, kOther = 3 };
inline constexpr int kFailureReasonCount = 4;
// "REJECTED", "CANCELED", "BACKEND", "OTHER".
std::string_view FailureReasonName(FailureReason reason);

struct BatchStatistic {
  DurationStatistic compute_input;
  DurationStatistic compute_infer;
  DurationStatistic compute_output;
};

// The responses of decoupled models that came as the n-th of their requests.
struct ResponseStatistic {
  DurationStatistic compute_infer;  // since the response before, or since the request left the queue
  DurationStatistic compute_output;
  DurationStatistic success;
  DurationStatistic fail;
  DurationStatistic empty_response;  // the end of a request, with no response
};

// In microseconds; without counts when there are none.
struct OvmsHistograms {
  std::array<LatencyHistogram, kApiInterfaceCount> request;  // by ApiInterface, from reading to the answer
  LatencyHistogram inference;                                // what the model took
  LatencyHistogram wait;                                     // for an instance
  // Of graphs, by GraphCallIndex(): how long runs took, and how long the first response to a call.
  std::array<LatencyHistogram, 2> graph_processing;
  std::array<LatencyHistogram, 2> graph_latency;

  bool on() const { return !inference.counts.empty(); }
};

// 1 for streams, 0 for all other calls.
inline size_t GraphCallIndex(ApiMethod method) { return method == ApiMethod::kModelInferStream ? 1 : 0; }

// The counters, without what is told apart.
struct StatisticsTotals {
  uint64_t last_inference_ms = 0;  // since 1970
  uint64_t inference_count = 0;    // rows
  uint64_t execution_count = 0;
  DurationStatistic success;
  DurationStatistic fail;
  DurationStatistic queue;
  DurationStatistic compute_input;
  DurationStatistic compute_infer;
  DurationStatistic compute_output;
  DurationStatistic cache_hit;
  DurationStatistic cache_miss;
  uint64_t failures[kFailureReasonCount] = {};
  int64_t load_ns = 0;  // that it took to load
};

struct StatisticsSnapshot : StatisticsTotals {
  std::map<int64_t, BatchStatistic> batches;  // by rows of the execution
  LatencyHistogram first_response_ms;         // without counts when there is none
  OvmsHistograms ovms_us;
  // By index of the response; empty for models that are not decoupled.
  std::map<uint32_t, ResponseStatistic> responses;
};

// What a response of a decoupled model is.
enum class ResponseKind : unsigned char { kSuccess, kFail, kEmpty };
// A request can have any number of responses; from this index on they are counted together.
inline constexpr uint32_t kMostResponseStatistics = 256;

// The times of one execution, SteadyNowNs().
struct ExecutionTimes {
  int64_t compute_start_ns = 0;  // left the queue
  int64_t input_end_ns = 0;      // inputs are ready for user code
  int64_t infer_end_ns = 0;      // user code returned
  int64_t output_end_ns = 0;     // outputs are ready to send
};

class ModelStatistics {
 public:
  // What is kept beside counters. Called once at most, before the first request.
  void Configure(const LatencyOptions& options);
  // The servable is loaded, which took `duration_ns`.
  void RecordLoad(int64_t duration_ns);
  // One execution ran, over `rows` rows; called before its responses are delivered.
  void RecordExecution(int64_t rows, const ExecutionTimes& times);
  // A request ended well.
  void RecordSuccess(int64_t rows, int64_t start_ns, int64_t queue_start_ns, const ExecutionTimes& times);
  // A request ended with an error.
  void RecordFailure(FailureReason reason, int64_t start_ns, int64_t end_ns);
  // A request was answered from the cache; `lookup_ns` is what that took.
  void RecordCacheHit(int64_t start_ns, int64_t end_ns, int64_t lookup_ns);
  // A request was not found there; looking, and keeping its response now, took `cache_ns`.
  void RecordCacheMiss(int64_t cache_ns);
  // One response of a decoupled model's request, the `index`-th, `infer_ns` after the one before.
  void RecordResponse(uint32_t index, ResponseKind kind, int64_t infer_ns);

  // The first response of a decoupled model's request came so long after the request.
  void RecordFirstResponse(int64_t duration_ns);
  // A request that came by this interface has ended, well or not.
  void RecordApiRequest(ApiInterface interface, int64_t duration_ns);
  // A run of a graph for a call of this method has ended; by the servable.
  void RecordGraphRun(ApiMethod method, int64_t duration_ns);
  // A call of a graph got its first response so long after its first message; by the protocols.
  void RecordGraphLatency(ApiMethod method, int64_t duration_ns);

  StatisticsSnapshot Snapshot() const;
  // The same without what needs memory: for who asks often, of many.
  StatisticsTotals Totals() const;
  // Nothing when there are none.
  std::optional<LatencySummariesSnapshot> Summaries() const;

 private:
  // A request of a model with one response a request has ended so long after it came.
  void NoteEnd(int64_t duration_ns) BRAID_REQUIRES(mutex_);

  // Constant after Configure().
  std::unique_ptr<LatencySummaries> summaries_;
  bool first_response_histogram_ = false;
  bool end_is_first_response_ = false;
  bool ovms_histograms_ = false;
  mutable Mutex mutex_;
  StatisticsSnapshot totals_ BRAID_GUARDED_BY(mutex_);
};

}  // namespace braid
