#include "serving/statistics.h"

#include <algorithm>

#include "base/clock.h"

namespace braid {

std::string_view FailureReasonName(FailureReason reason) {
  switch (reason) {
    case FailureReason::kRejected:
      return "REJECTED";
    case FailureReason::kCanceled:
      return "CANCELED";
    case FailureReason::kBackend:
      return "BACKEND";
    case FailureReason::kOther:
      return "OTHER";
  }
  return "OTHER";
}

void ModelStatistics::Configure(const LatencyOptions& options) {
  if (!options.quantiles.empty()) summaries_ = std::make_unique<LatencySummaries>(options.quantiles);
  first_response_histogram_ = !options.first_response_bounds_ms.empty();
  end_is_first_response_ = first_response_histogram_ && options.one_response;
  ovms_histograms_ = !options.ovms_bounds_us.empty();
  MutexLock lock(mutex_);
  if (ovms_histograms_) {
    for (LatencyHistogram& histogram : totals_.ovms_us.request) histogram.Start(options.ovms_bounds_us);
    totals_.ovms_us.inference.Start(options.ovms_bounds_us);
    totals_.ovms_us.wait.Start(options.ovms_bounds_us);
    for (LatencyHistogram& histogram : totals_.ovms_us.graph_processing) {
      histogram.Start(options.ovms_bounds_us);
    }
    for (LatencyHistogram& histogram : totals_.ovms_us.graph_latency) histogram.Start(options.ovms_bounds_us);
  }
  if (first_response_histogram_) totals_.first_response_ms.Start(options.first_response_bounds_ms);
}

void ModelStatistics::RecordLoad(int64_t duration_ns) {
  MutexLock lock(mutex_);
  totals_.load_ns = duration_ns;
}

void ModelStatistics::RecordFirstResponse(int64_t duration_ns) {
  if (!first_response_histogram_) return;
  MutexLock lock(mutex_);
  totals_.first_response_ms.Observe(static_cast<double>(duration_ns) / 1e6);
}

void ModelStatistics::RecordToken(bool first, int64_t duration_ns) {
  MutexLock lock(mutex_);
  if (totals_.first_token_s.counts.empty()) {
    totals_.first_token_s.Start({0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5,
                                 0.75,  1,     2.5,  5,    7.5,  10,   20,   40,  80,   160});
    totals_.next_token_s.Start(
        {0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1, 2.5});
  }
  (first ? totals_.first_token_s : totals_.next_token_s).Observe(static_cast<double>(duration_ns) / 1e9);
}

void ModelStatistics::NoteEnd(int64_t duration_ns) {
  if (end_is_first_response_) totals_.first_response_ms.Observe(static_cast<double>(duration_ns) / 1e6);
}

void ModelStatistics::RecordApiRequest(ApiInterface interface, int64_t duration_ns) {
  if (!ovms_histograms_) return;
  MutexLock lock(mutex_);
  totals_.ovms_us.request[static_cast<size_t>(interface)].Observe(WholeMicroseconds(duration_ns));
}

void ModelStatistics::RecordGraphRun(ApiMethod method, int64_t duration_ns) {
  if (!ovms_histograms_) return;
  MutexLock lock(mutex_);
  totals_.ovms_us.graph_processing[GraphCallIndex(method)].Observe(WholeMicroseconds(duration_ns));
}

void ModelStatistics::RecordGraphLatency(ApiMethod method, int64_t duration_ns) {
  if (!ovms_histograms_) return;
  MutexLock lock(mutex_);
  totals_.ovms_us.graph_latency[GraphCallIndex(method)].Observe(WholeMicroseconds(duration_ns));
}

std::optional<LatencySummariesSnapshot> ModelStatistics::Summaries() const {
  if (!summaries_) return std::nullopt;
  return summaries_->Snapshot();
}

void ModelStatistics::RecordExecution(int64_t rows, const ExecutionTimes& times) {
  MutexLock lock(mutex_);
  ++totals_.execution_count;
  BatchStatistic& batch = totals_.batches[rows];
  batch.compute_input.Add(times.input_end_ns - times.compute_start_ns);
  batch.compute_infer.Add(times.infer_end_ns - times.input_end_ns);
  batch.compute_output.Add(times.output_end_ns - times.infer_end_ns);
}

void ModelStatistics::RecordSuccess(int64_t rows, int64_t start_ns, int64_t queue_start_ns,
                                    const ExecutionTimes& times) {
  const int64_t now_ms = WallNowMs();
  if (summaries_) {
    summaries_->Observe(times.output_end_ns - start_ns, times.compute_start_ns - queue_start_ns,
                        times.input_end_ns - times.compute_start_ns, times.infer_end_ns - times.input_end_ns,
                        times.output_end_ns - times.infer_end_ns);
  }
  MutexLock lock(mutex_);
  totals_.last_inference_ms = static_cast<uint64_t>(now_ms);
  totals_.inference_count += static_cast<uint64_t>(rows);
  totals_.success.Add(times.output_end_ns - start_ns);
  NoteEnd(times.output_end_ns - start_ns);
  totals_.queue.Add(times.compute_start_ns - queue_start_ns);
  totals_.compute_input.Add(times.input_end_ns - times.compute_start_ns);
  totals_.compute_infer.Add(times.infer_end_ns - times.input_end_ns);
  totals_.compute_output.Add(times.output_end_ns - times.infer_end_ns);
  if (ovms_histograms_) {
    totals_.ovms_us.wait.Observe(WholeMicroseconds(times.compute_start_ns - queue_start_ns));
    totals_.ovms_us.inference.Observe(WholeMicroseconds(times.infer_end_ns - times.input_end_ns));
  }
}

void ModelStatistics::RecordFailure(FailureReason reason, int64_t start_ns, int64_t end_ns) {
  const int64_t now_ms = WallNowMs();
  MutexLock lock(mutex_);
  totals_.last_inference_ms = static_cast<uint64_t>(now_ms);
  totals_.fail.Add(end_ns - start_ns);
  NoteEnd(end_ns - start_ns);
  ++totals_.failures[static_cast<int>(reason)];
}

void ModelStatistics::RecordCacheHit(int64_t start_ns, int64_t end_ns, int64_t lookup_ns) {
  if (summaries_) summaries_->ObserveCached(end_ns - start_ns);
  const int64_t now_ms = WallNowMs();
  MutexLock lock(mutex_);
  totals_.last_inference_ms = static_cast<uint64_t>(now_ms);
  totals_.success.Add(end_ns - start_ns);
  NoteEnd(end_ns - start_ns);
  totals_.cache_hit.Add(lookup_ns);
}

void ModelStatistics::RecordCacheMiss(int64_t cache_ns) {
  MutexLock lock(mutex_);
  totals_.cache_miss.Add(cache_ns);
}

void ModelStatistics::RecordResponse(uint32_t index, ResponseKind kind, int64_t infer_ns) {
  MutexLock lock(mutex_);
  ResponseStatistic& response = totals_.responses[std::min(index, kMostResponseStatistics)];
  switch (kind) {
    case ResponseKind::kSuccess:
      response.success.Add(infer_ns);
      break;
    case ResponseKind::kFail:
      response.fail.Add(infer_ns);
      break;
    case ResponseKind::kEmpty:
      response.empty_response.Add(infer_ns);
      return;
  }
  response.compute_infer.Add(infer_ns);
  // The response is counted when it is in the server's memory; the protocol writes it out later.
  response.compute_output.Add(0);
}

StatisticsTotals ModelStatistics::Totals() const {
  MutexLock lock(mutex_);
  return totals_;
}

StatisticsSnapshot ModelStatistics::Snapshot() const {
  MutexLock lock(mutex_);
  return totals_;
}

}  // namespace braid
