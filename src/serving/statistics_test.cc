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

TEST(ModelStatistics, TotalsAreThoseOfTheSnapshot) {
  ModelStatistics statistics;
  statistics.RecordSuccess(3, 0, 1, {2, 3, 4, 5});
  statistics.RecordFailure(FailureReason::kRejected, 0, 7);
  const StatisticsTotals totals = statistics.Totals();
  EXPECT_EQ(totals.inference_count, 3u);
  EXPECT_EQ(totals.success.count, 1u);
  EXPECT_EQ(totals.fail.ns, 7u);
  EXPECT_EQ(totals.failures[static_cast<size_t>(FailureReason::kRejected)], 1u);
  EXPECT_EQ(statistics.Snapshot().success.ns, totals.success.ns);
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

TEST(ModelStatistics, KeepsABoundedNumberOfResponsesApart) {
  ModelStatistics statistics;
  for (uint32_t i = 0; i < 1000; ++i) statistics.RecordResponse(i, ResponseKind::kSuccess, 5);
  statistics.RecordResponse(1, ResponseKind::kFail, 7);
  const StatisticsSnapshot snapshot = statistics.Snapshot();
  EXPECT_EQ(snapshot.responses.size(), kMostResponseStatistics + 1);
  EXPECT_EQ(snapshot.responses.at(0).success.ns, 5u);
  EXPECT_EQ(snapshot.responses.at(1).fail.count, 1u);
  EXPECT_EQ(snapshot.responses.at(1).compute_infer.count, 2u);
  EXPECT_EQ(snapshot.responses.at(kMostResponseStatistics).success.count, 1000u - kMostResponseStatistics);
}

TEST(ModelStatistics, TakesTimesThatRunBackwardsAsNothing) {
  ModelStatistics statistics;
  statistics.RecordSuccess(1, 100, 100, {});
  EXPECT_EQ(statistics.Snapshot().success.ns, 0u);
}

TEST(ModelStatistics, KeepsHistogramsOfApisOnlyWhenAskedFor) {
  ModelStatistics none;
  none.RecordApiRequest(ApiInterface::kGrpc, 5'000);
  EXPECT_FALSE(none.Snapshot().ovms_us.on());

  ModelStatistics statistics;
  LatencyOptions options;
  options.ovms_bounds_us = {10, 100};
  statistics.Configure(options);
  ExecutionTimes times;
  times.compute_start_ns = 50'000;
  times.input_end_ns = 60'000;
  times.infer_end_ns = 260'000;
  times.output_end_ns = 270'000;
  statistics.RecordSuccess(1, 0, 45'000, times);
  statistics.RecordApiRequest(ApiInterface::kRest, 80'000);
  const OvmsHistograms histograms = statistics.Snapshot().ovms_us;
  EXPECT_TRUE(histograms.on());
  EXPECT_EQ(histograms.wait.counts, (std::vector<uint64_t>{1, 0, 0}));
  EXPECT_EQ(histograms.wait.sum, 5);
  EXPECT_EQ(histograms.inference.counts, (std::vector<uint64_t>{0, 0, 1}));
  EXPECT_EQ(histograms.inference.sum, 200);
  EXPECT_EQ(histograms.request[0].counts, (std::vector<uint64_t>{0, 0, 0}));
  EXPECT_EQ(histograms.request[1].counts, (std::vector<uint64_t>{0, 1, 0}));
}

TEST(ModelStatistics, NamesReasonsAsMetricsDo) {
  EXPECT_EQ(FailureReasonName(FailureReason::kRejected), "REJECTED");
  EXPECT_EQ(FailureReasonName(FailureReason::kCanceled), "CANCELED");
  EXPECT_EQ(FailureReasonName(FailureReason::kBackend), "BACKEND");
  EXPECT_EQ(FailureReasonName(FailureReason::kOther), "OTHER");
}

}  // namespace
}  // namespace braid
