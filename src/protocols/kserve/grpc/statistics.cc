#include "protocols/kserve/grpc/statistics.h"

namespace braid {
namespace {

void Write(const DurationStatistic& statistic, inference::StatisticDuration& message) {
  message.set_count(statistic.count);
  message.set_ns(statistic.ns);
}

}  // namespace

void WriteStatistics(const ServableInfo& info, const StatisticsSnapshot& snapshot,
                     inference::ModelStatistics& message) {
  message.set_name(info.name);
  message.set_version(std::to_string(info.version));
  message.set_last_inference(snapshot.last_inference_ms);
  message.set_inference_count(snapshot.inference_count);
  message.set_execution_count(snapshot.execution_count);
  inference::InferStatistics& stats = *message.mutable_inference_stats();
  Write(snapshot.success, *stats.mutable_success());
  Write(snapshot.fail, *stats.mutable_fail());
  Write(snapshot.queue, *stats.mutable_queue());
  Write(snapshot.compute_input, *stats.mutable_compute_input());
  Write(snapshot.compute_infer, *stats.mutable_compute_infer());
  Write(snapshot.compute_output, *stats.mutable_compute_output());
  Write(snapshot.cache_hit, *stats.mutable_cache_hit());
  Write(snapshot.cache_miss, *stats.mutable_cache_miss());
  for (const auto& [rows, batch] : snapshot.batches) {
    inference::InferBatchStatistics& entry = *message.add_batch_stats();
    entry.set_batch_size(static_cast<uint64_t>(rows));
    Write(batch.compute_input, *entry.mutable_compute_input());
    Write(batch.compute_infer, *entry.mutable_compute_infer());
    Write(batch.compute_output, *entry.mutable_compute_output());
  }
  for (const auto& [index, response] : snapshot.responses) {
    inference::InferResponseStatistics& entry = (*message.mutable_response_stats())[std::to_string(index)];
    Write(response.compute_infer, *entry.mutable_compute_infer());
    Write(response.compute_output, *entry.mutable_compute_output());
    Write(response.success, *entry.mutable_success());
    Write(response.fail, *entry.mutable_fail());
    Write(response.empty_response, *entry.mutable_empty_response());
    Write(DurationStatistic(), *entry.mutable_cancel());
  }
}

}  // namespace braid
