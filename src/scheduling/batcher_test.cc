#include "scheduling/batcher.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

namespace braid {
namespace {

constexpr int64_t kNow = 1'000'000;

BatchingPolicy Policy(int64_t max_batch_size, std::vector<int64_t> preferred = {}, int64_t max_delay_ns = 0) {
  BatchingPolicy policy;
  policy.dynamic = true;
  policy.max_batch_size = max_batch_size;
  policy.preferred_sizes = std::move(preferred);
  policy.max_delay_ns = max_delay_ns;
  return policy;
}

std::vector<WaitingRequest> Rows(std::vector<int64_t> rows, int64_t arrived_ns = kNow) {
  std::vector<WaitingRequest> waiting;
  for (int64_t r : rows) waiting.push_back({r, arrived_ns, true});
  return waiting;
}

TEST(DecideBatch, TakesOneWithoutDynamicBatching) {
  BatchingPolicy policy;
  policy.max_batch_size = 8;
  EXPECT_EQ(DecideBatch(policy, Rows({1}), kNow).count, 1u);
  policy = Policy(0);
  EXPECT_EQ(DecideBatch(policy, Rows({1}), kNow).count, 1u);
}

TEST(DecideBatch, FollowsTheTable) {
  struct Case {
    const char* name;
    BatchingPolicy policy;
    std::vector<int64_t> rows;
    BatchDecision expected;
  };
  const int64_t delay = 500;
  const Case cases[] = {
      {"no delay takes what is there", Policy(8), {2, 3}, {2}},
      {"no delay takes no more than the maximum", Policy(8), {4, 3, 2}, {2}},
      {"delay waits", Policy(8, {}, delay), {2, 3}, {0, kNow + delay}},
      {"full goes at once", Policy(8, {}, delay), {4, 4}, {2}},
      {"what cannot grow goes at once", Policy(8, {}, delay), {4, 5}, {1}},
      {"preferred goes at once", Policy(16, {8}, delay), {2, 2, 2, 2}, {4}},
      {"less than preferred waits", Policy(16, {8}, delay), {2, 2, 2}, {0, kNow + delay}},
      {"the largest preferred that is reached", Policy(16, {2, 4, 8}, delay), {2, 2, 2}, {2}},
      {"what is beyond preferred stays", Policy(16, {8}, delay), {4, 4, 2}, {2}},
      {"passing over preferred waits", Policy(16, {8}, delay), {5, 5}, {0, kNow + delay}},
      {"preferred without delay takes preferred", Policy(8, {4}), {2, 2, 2}, {2}},
      {"no preferred reached without delay", Policy(8, {4}), {3}, {1}},
      {"a single one of the maximum", Policy(8, {}, delay), {8}, {1}},
  };
  for (const Case& c : cases) EXPECT_EQ(DecideBatch(c.policy, Rows(c.rows), kNow), c.expected) << c.name;
}

TEST(DecideBatch, CountsTheDelayFromTheOldest) {
  auto waiting = Rows({1, 1});
  waiting[1].arrived_ns = kNow - 300;  // of a lower priority, but older
  const BatchingPolicy policy = Policy(8, {}, 500);
  EXPECT_EQ(DecideBatch(policy, waiting, kNow), (BatchDecision{0, kNow + 200}));
  EXPECT_EQ(DecideBatch(policy, waiting, kNow + 199), (BatchDecision{0, kNow + 200}));
  EXPECT_EQ(DecideBatch(policy, waiting, kNow + 200), (BatchDecision{2}));
}

TEST(DecideBatch, SendsWhatComesBeforeADifferentShapeAtOnce) {
  auto waiting = Rows({1, 1, 1});
  waiting[2].joins_first = false;
  EXPECT_EQ(DecideBatch(Policy(8, {}, 500), waiting, kNow), (BatchDecision{2}));
}

TEST(DecideBatch, NeedsToSeeNoMoreThanLastOfInterest) {
  // Requests after the last of interest change nothing, for random queues and policies.
  std::mt19937 random(7);
  const auto draw = [&random](int from, int to) {
    return std::uniform_int_distribution<int>(from, to)(random);
  };
  for (int round = 0; round < 5000; ++round) {
    BatchingPolicy policy = Policy(draw(1, 12), {}, draw(0, 1) * 500);
    for (int size = 1; size <= policy.max_batch_size; ++size) {
      if (draw(0, 3) == 0) policy.preferred_sizes.push_back(size);
    }
    std::vector<WaitingRequest> waiting;
    for (int i = draw(1, 20); i > 0; --i) {
      waiting.push_back(
          {draw(1, static_cast<int>(policy.max_batch_size)), kNow - draw(0, 600), draw(0, 5) != 0});
    }
    waiting[0].joins_first = true;
    size_t enough = 0;
    int64_t rows = 0;
    do {
      rows += waiting[enough].rows;
    } while (!LastOfInterest(policy, waiting[enough], rows) && ++enough < waiting.size());
    enough = std::min(enough + 1, waiting.size());
    const BatchDecision decision = DecideBatch(policy, std::span(waiting).first(enough), kNow);
    ASSERT_EQ(decision, DecideBatch(policy, waiting, kNow));

    if (decision.count == 0) {
      ASSERT_GT(decision.wait_until_ns, kNow);
      continue;
    }
    int64_t taken = 0;
    for (size_t i = 0; i < decision.count; ++i) {
      ASSERT_TRUE(waiting[i].joins_first);
      taken += waiting[i].rows;
    }
    ASSERT_LE(taken, policy.max_batch_size);
  }
}

Tensor Input(const std::string& name, Shape shape) { return {name, DataType::kFp32, std::move(shape), {}}; }

TEST(CanShareBatch, ComparesShapesBeyondTheBatchDimension) {
  ServableInfo info;
  info.inputs = {{"A", DataType::kFp32, {-1, -1}, false, false, {}},
                 {"B", DataType::kFp32, {-1, -1}, true, true, {}}};
  InferenceRequest first;
  first.inputs.push_back(Input("A", {2, 4}));
  InferenceRequest second;
  second.inputs.push_back(Input("A", {3, 4}));
  EXPECT_TRUE(CanShareBatch(info, first, second));
  second.inputs[0].shape = {2, 5};
  EXPECT_FALSE(CanShareBatch(info, first, second));
  second.inputs[0].shape = {2, 4, 1};
  EXPECT_FALSE(CanShareBatch(info, first, second));
}

TEST(CanShareBatch, LetsRaggedAndMissingInputsPass) {
  ServableInfo info;
  info.inputs = {{"A", DataType::kFp32, {-1, -1}, false, false, {}},
                 {"B", DataType::kFp32, {-1, -1}, true, true, {}}};
  InferenceRequest first;
  first.inputs.push_back(Input("B", {1, 9}));
  first.inputs.push_back(Input("A", {1, 4}));
  InferenceRequest second;
  second.inputs.push_back(Input("A", {1, 4}));
  EXPECT_TRUE(CanShareBatch(info, first, second));
  EXPECT_TRUE(CanShareBatch(info, second, first));
  second.inputs.push_back(Input("B", {1, 8}));
  EXPECT_TRUE(CanShareBatch(info, first, second));
}

TEST(PipelineDepth, GivesAheadWhatBeginsWithin200Microseconds) {
  const int64_t us = 1000;
  EXPECT_EQ(PipelineDepth(0, 0, false), 1);
  EXPECT_EQ(PipelineDepth(1 * us, 0, false), 32);
  EXPECT_EQ(PipelineDepth(40 * us, 0, false), 6);
  EXPECT_EQ(PipelineDepth(100 * us, 0, false), 3);
  EXPECT_EQ(PipelineDepth(200 * us, 0, false), 2);
  EXPECT_EQ(PipelineDepth(201 * us, 0, false), 1);
  EXPECT_EQ(PipelineDepth(1000 * us, 0, false), 1);
  // An instance whose execution runs longer than usual gets no more.
  EXPECT_EQ(PipelineDepth(20 * us, 300 * us, false), 11);
  EXPECT_EQ(PipelineDepth(20 * us, 3000 * us, false), 1);
  EXPECT_EQ(PipelineDepth(20 * us, 0, true), 2);
}

TEST(PipelineDepth, IsNotUpsetByASingleLongExecution) {
  EXPECT_EQ(UpdateExecuteTime(0, 500), 500);
  EXPECT_EQ(UpdateExecuteTime(100, 900), 200);
  EXPECT_EQ(UpdateExecuteTime(8'000, 50'000'000), 57'000);
  EXPECT_EQ(UpdateExecuteTime(0, 50'000'000), 400'000);
  EXPECT_EQ(UpdateExecuteTime(900, 100), 800);
  EXPECT_EQ(UpdateExecuteTime(900, 0), 900);
}

}  // namespace
}  // namespace braid
