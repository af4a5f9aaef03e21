#include "protocols/console/history.h"

#include <gtest/gtest.h>

#include "protocols/inference/testing/fake_servable.h"

namespace braid {
namespace {

constexpr int64_t kMs = 1'000'000;

class ConsoleHistoryTest : public ::testing::Test {
 protected:
  std::shared_ptr<FakeServable> Publish(const std::string& name, int64_t version = 1) {
    auto model = std::make_shared<FakeServable>(FakeServable::EchoInfo(name, DataType::kFp32, version));
    catalog_.Publish(model);
    return model;
  }
  // Runs requests of 10 ms each, of which 3 were in the queue and 7 in the model.
  static void Run(Servable& model, int requests) {
    const ExecutionTimes times{3 * kMs, 4 * kMs, 9 * kMs, 10 * kMs};
    for (int i = 0; i < requests; ++i) {
      model.statistics().RecordExecution(1, times);
      model.statistics().RecordSuccess(1, 0, 0, times);
    }
  }
  void Sample(int times = 1) {
    for (int i = 0; i < times; ++i) history_.Sample(catalog_, now_ms_ += ConsoleHistory::kStepMs);
  }
  static std::vector<uint64_t> Requests(const std::vector<HistorySample>& samples) {
    std::vector<uint64_t> requests;
    for (const HistorySample& sample : samples) requests.push_back(sample.counters.requests);
    return requests;
  }

  Catalog catalog_;
  ConsoleHistory history_;
  int64_t now_ms_ = 1'700'000'000'000;
};

TEST_F(ConsoleHistoryTest, HasNothingBeforeTheFirstLook) {
  EXPECT_TRUE(history_.OfServer().empty());
  EXPECT_TRUE(history_.Of("m", 1).empty());
}

TEST_F(ConsoleHistoryTest, KeepsWhatCountersWere) {
  auto model = Publish("m");
  Sample();
  Run(*model, 2);
  model->statistics().RecordFailure(FailureReason::kBackend, 0, 5);
  Sample(2);
  Run(*model, 1);
  Sample();
  const auto samples = history_.Of("m", 1);
  EXPECT_EQ(Requests(samples), (std::vector<uint64_t>{0, 2, 2, 3}));
  EXPECT_EQ(samples[0].at_ms, 1'700'000'002'000);
  EXPECT_EQ(samples[3].at_ms, 1'700'000'008'000);
  EXPECT_EQ(samples[3].counters, (HistoryCounters{.requests = 3,
                                                  .failures = 1,
                                                  .request_us = 30'000,
                                                  .queue_us = 9'000,
                                                  .compute_us = 21'000,
                                                  .executions = 3,
                                                  .pending = 0}));
  EXPECT_EQ(Requests(history_.OfServer()), (std::vector<uint64_t>{0, 2, 2, 3}));
  EXPECT_TRUE(history_.Of("m", 2).empty());
}

TEST_F(ConsoleHistoryTest, GoesOnWhereAVersionIsLoadedAnew) {
  auto model = Publish("m");
  Run(*model, 5);
  Sample();
  auto again = Publish("m");
  Run(*again, 1);
  Sample();
  Run(*again, 1);
  Sample();
  EXPECT_EQ(Requests(history_.Of("m", 1)), (std::vector<uint64_t>{5, 6, 7}));
  EXPECT_EQ(Requests(history_.OfServer()), (std::vector<uint64_t>{5, 6, 7}));
}

TEST_F(ConsoleHistoryTest, TheServersGoOnWhereAModelIsUnloaded) {
  auto one = Publish("one");
  auto two = Publish("two");
  Run(*one, 5);
  Run(*two, 1);
  Sample();
  catalog_.SetState("one", 1, VersionState::kUnavailable, "unloaded");
  Run(*two, 1);
  Sample();
  EXPECT_EQ(Requests(history_.OfServer()), (std::vector<uint64_t>{6, 7}));
  // Its history stays until it is too old.
  EXPECT_EQ(Requests(history_.Of("one", 1)), (std::vector<uint64_t>{5}));
  Sample(ConsoleHistory::kSamples);
  EXPECT_TRUE(history_.Of("one", 1).empty());
  EXPECT_EQ(history_.Of("two", 1).size(), ConsoleHistory::kSamples);
  EXPECT_EQ(Requests(history_.OfServer()).back(), 7u);
}

TEST_F(ConsoleHistoryTest, KeepsTheLastSamples) {
  auto model = Publish("m");
  for (size_t i = 0; i < ConsoleHistory::kSamples + 10; ++i) {
    Run(*model, 1);
    Sample();
  }
  const auto samples = history_.Of("m", 1);
  ASSERT_EQ(samples.size(), ConsoleHistory::kSamples);
  EXPECT_EQ(samples.front().counters.requests, 11u);
  EXPECT_EQ(samples.back().counters.requests, ConsoleHistory::kSamples + 10);
  EXPECT_EQ(samples.back().at_ms - samples.front().at_ms,
            static_cast<int64_t>(ConsoleHistory::kSamples - 1) * ConsoleHistory::kStepMs);
}

TEST_F(ConsoleHistoryTest, ASeriesBeginsWithItsVersion) {
  Publish("m");
  Sample(3);
  Publish("late");
  Sample();
  EXPECT_EQ(history_.Of("late", 1).size(), 1u);
  EXPECT_EQ(history_.Of("m", 1).size(), 4u);
}

TEST_F(ConsoleHistoryTest, SeriesAreBounded) {
  for (size_t i = 0; i < ConsoleHistory::kMostSeries + 5; ++i) {
    Run(*Publish("m" + std::to_string(100'000 + i)), 1);
  }
  Sample();
  EXPECT_EQ(history_.Of("m100000", 1).size(), 1u);
  EXPECT_TRUE(history_.Of("m" + std::to_string(100'000 + ConsoleHistory::kMostSeries), 1).empty());
  EXPECT_EQ(Requests(history_.OfServer()).back(), ConsoleHistory::kMostSeries + 5);
}

}  // namespace
}  // namespace braid
