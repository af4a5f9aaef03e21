#include "base/flow_counters.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

namespace braid {
namespace {

TEST(FlowCountersTest, CountsNodesAndEdgesApart) {
  FlowCounters counters(2, 2);
  counters.Started(0);
  counters.Started(1);
  counters.Started(1);
  counters.Ended(1, true, 30);
  counters.Ended(1, false, 12);
  counters.Passed(1, 3);
  EXPECT_EQ(counters.Read(0).started, 1u);
  EXPECT_EQ(counters.Read(0).ended, 0u);
  const auto node = counters.Read(1);
  EXPECT_EQ(node.started, 2u);
  EXPECT_EQ(node.ended, 2u);
  EXPECT_EQ(node.failed, 1u);
  EXPECT_EQ(node.total_ns, 42u);
  EXPECT_EQ(counters.ReadPassed(0), 0u);
  EXPECT_EQ(counters.ReadPassed(1), 3u);
}

// Clocks of two cores may differ.
TEST(FlowCountersTest, ATimeBelowZeroCountsAsNone) {
  FlowCounters counters(1, 0);
  counters.Started(0);
  counters.Ended(0, false, -5);
  EXPECT_EQ(counters.Read(0).total_ns, 0u);
}

TEST(FlowCountersTest, NothingHasEndedThatHasNotStarted) {
  constexpr uint64_t kEach = 20'000;
  FlowCounters counters(1, 0);
  std::vector<std::thread> writers;
  for (int i = 0; i < 2; ++i) {
    writers.emplace_back([&counters] {
      for (uint64_t n = 0; n < kEach; ++n) {
        counters.Started(0);
        counters.Ended(0, true, 1);
      }
    });
  }
  FlowCounters::NodeCounts counts;
  while (counts.failed < 2 * kEach) {
    counts = counters.Read(0);
    ASSERT_LE(counts.failed, counts.ended);
    ASSERT_LE(counts.ended, counts.started);
  }
  for (std::thread& writer : writers) writer.join();
}

}  // namespace
}  // namespace braid
