// ModelStatistics: the activity of a servable since it was loaded, for the statistics extension and the
// metrics endpoint.
//
// It is updated before the client can see the response. Takes one short lock per servable and no global lock.
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

// Responses of a decoupled model at one index, over all its requests.
struct ResponseStatistic {
  DurationStatistic compute_infer;  // since the previous response, or since the request left the queue
  DurationStatistic compute_output;
  DurationStatistic success;
  DurationStatistic fail;
  DurationStatistic empty_response;  // the request's end without a response
};

// In microseconds; without counts if disabled.
struct OvmsHistograms {
  std::array<LatencyHistogram, kApiInterfaceCount> request;  // by ApiInterface, from reading to the answer
  LatencyHistogram inference;                                // execution of the model
  LatencyHistogram wait;                                     // waiting for an instance
  // Of graphs, by GraphCallIndex(): the duration of runs, and the time to the first response of a call.
  std::array<LatencyHistogram, 2> graph_processing;
  std::array<LatencyHistogram, 2> graph_latency;

  bool on() const { return !inference.counts.empty(); }
};

// Returns 1 for streams, 0 for all other calls.
inline size_t GraphCallIndex(ApiMethod method) { return method == ApiMethod::kModelInferStream ? 1 : 0; }

// The counters without breakdowns.
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
  int64_t load_ns = 0;  // duration of the load
};

struct StatisticsSnapshot : StatisticsTotals {
  std::map<int64_t, BatchStatistic> batches;  // by rows per execution
  LatencyHistogram first_response_ms;         // without counts if disabled
  // Of requests of OpenAI's API, in seconds: until the first piece of the reply, and between two pieces.
  // Without counts before the first such request.
  LatencyHistogram first_token_s;
  LatencyHistogram next_token_s;
  OvmsHistograms ovms_us;
  // By index of the response; empty for models that are not decoupled.
  std::map<uint32_t, ResponseStatistic> responses;
};

// The kind of a decoupled model's response.
enum class ResponseKind : unsigned char { kSuccess, kFail, kEmpty };
// A request can have any number of responses; those from this index on are counted together.
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
  // Enables histograms and summaries. Called at most once, before the first request.
  void Configure(const LatencyOptions& options);
  // Records that the servable was loaded in `duration_ns`.
  void RecordLoad(int64_t duration_ns);
  // Records one execution over `rows` rows; called before its responses are delivered.
  void RecordExecution(int64_t rows, const ExecutionTimes& times);
  // Records a request that succeeded.
  void RecordSuccess(int64_t rows, int64_t start_ns, int64_t queue_start_ns, const ExecutionTimes& times);
  // Records a request that failed.
  void RecordFailure(FailureReason reason, int64_t start_ns, int64_t end_ns);
  // Records a request that was answered from the cache; the lookup took `lookup_ns`.
  void RecordCacheHit(int64_t start_ns, int64_t end_ns, int64_t lookup_ns);
  // Records a cache miss; the lookup and storing the response took `cache_ns`.
  void RecordCacheMiss(int64_t cache_ns);
  // Records the `index`-th response of a decoupled model's request, `infer_ns` after the previous one.
  void RecordResponse(uint32_t index, ResponseKind kind, int64_t infer_ns);

  // Records the time from a decoupled model's request to its first response.
  void RecordFirstResponse(int64_t duration_ns);
  // Records a piece of a reply of OpenAI's API, `duration_ns` after the request, or after the piece before it.
  void RecordToken(bool first, int64_t duration_ns);
  // Records a request of this interface that ended, successfully or not.
  void RecordApiRequest(ApiInterface interface, int64_t duration_ns);
  // Records a graph's run for a call of this method; called by the servable.
  void RecordGraphRun(ApiMethod method, int64_t duration_ns);
  // Records the time from a graph call's first message to its first response; called by protocols.
  void RecordGraphLatency(ApiMethod method, int64_t duration_ns);

  StatisticsSnapshot Snapshot() const;
  // As Snapshot(), without the parts that allocate memory: for frequent reads of many models.
  StatisticsTotals Totals() const;
  // nullopt if disabled.
  std::optional<LatencySummariesSnapshot> Summaries() const;

 private:
  // Records the end of a request that has one response.
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
