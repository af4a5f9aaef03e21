#include "serving/statistics.h"

#include <gtest/gtest.h>

namespace braid {
namespace {

TEST(ModelStatistics, StartsAtZero) {
  const StatisticsSnapshot snapshot = ModelStatistics().Snapshot();
  EXPECT_EQ(snapshot.last_inference_ms, 0u);
  EXPECT_EQ(snapshot.success.count, 0u);
  EXPECT_TRUE(snapshot.batches.empty());
  for (uint64_t failures : snapshot.failures) EXPECT_EQ(failures, 0u);
}

TEST(ModelStatistics, CountsRowsExecutionsAndRequestsApart) {
  ModelStatistics statistics;
  const ExecutionTimes times{100, 110, 130, 170};
  statistics.RecordExecution(8, times);
  for (int i = 0; i < 4; ++i) statistics.RecordSuccess(2, 40, 60, times);
  const StatisticsSnapshot snapshot = statistics.Snapshot();
  EXPECT_EQ(snapshot.inference_count, 8u);
  EXPECT_EQ(snapshot.execution_count, 1u);
  EXPECT_EQ(snapshot.success.count, 4u);
  EXPECT_EQ(snapshot.success.ns, 4u * 130);
  EXPECT_EQ(snapshot.queue.ns, 4u * 40);
  EXPECT_EQ(snapshot.compute_input.ns, 4u * 10);
  EXPECT_EQ(snapshot.compute_infer.ns, 4u * 20);
  EXPECT_EQ(snapshot.compute_output.ns, 4u * 40);
  EXPECT_GT(snapshot.last_inference_ms, 0u);
  ASSERT_EQ(snapshot.batches.size(), 1u);
  const BatchStatistic& batch = snapshot.batches.at(8);
  EXPECT_EQ(batch.compute_infer.count, 1u);
  EXPECT_EQ(batch.compute_infer.ns, 20u);
}

TEST(ModelStatistics, CountsFailuresByReason) {
  ModelStatistics statistics;
  statistics.RecordFailure(FailureReason::kRejected, 10, 30);
  statistics.RecordFailure(FailureReason::kBackend, 10, 40);
  statistics.RecordFailure(FailureReason::kBackend, 10, 40);
  const StatisticsSnapshot snapshot = statistics.Snapshot();
  EXPECT_EQ(snapshot.fail.count, 3u);
  EXPECT_EQ(snapshot.fail.ns, 80u);
  EXPECT_EQ(snapshot.failures[static_cast<int>(FailureReason::kRejected)], 1u);
  EXPECT_EQ(snapshot.failures[static_cast<int>(FailureReason::kBackend)], 2u);
  EXPECT_EQ(snapshot.failures[static_cast<int>(FailureReason::kCanceled)], 0u);
  EXPECT_EQ(snapshot.success.count, 0u);
}

TEST(ModelStatistics, TakesTimesThatRunBackwardsAsNothing) {
  ModelStatistics statistics;
  statistics.RecordSuccess(1, 100, 100, {});
  EXPECT_EQ(statistics.Snapshot().success.ns, 0u);
}

TEST(ModelStatistics, NamesReasonsAsMetricsDo) {
  EXPECT_EQ(FailureReasonName(FailureReason::kRejected), "REJECTED");
  EXPECT_EQ(FailureReasonName(FailureReason::kCanceled), "CANCELED");
  EXPECT_EQ(FailureReasonName(FailureReason::kBackend), "BACKEND");
  EXPECT_EQ(FailureReasonName(FailureReason::kOther), "OTHER");
}

}  // namespace
}  // namespace braid
