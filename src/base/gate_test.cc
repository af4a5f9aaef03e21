#include "base/gate.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "base/clock.h"

namespace braid {
namespace {

TEST(Gate, RefusesAfterClose) {
  Gate gate;
  EXPECT_TRUE(gate.Enter());
  gate.Close();
  EXPECT_FALSE(gate.Enter());
  EXPECT_EQ(gate.inside(), 1u);
  EXPECT_FALSE(gate.WaitUntilEmpty(SteadyNowNs() + 1'000'000));
  gate.Leave();
  EXPECT_TRUE(gate.WaitUntilEmpty(SteadyNowNs()));
}

TEST(Gate, WaiterWakesWhenTheLastOfManyThreadsLeaves) {
  Gate gate;
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&gate] {
      while (gate.Enter()) gate.Leave();
    });
  }
  ASSERT_TRUE(gate.Enter());
  std::thread last([&gate] { gate.Leave(); });
  gate.Close();
  EXPECT_TRUE(gate.WaitUntilEmpty(SteadyNowNs() + 10'000'000'000));
  EXPECT_EQ(gate.inside(), 0u);
  last.join();
  for (auto& thread : threads) thread.join();
}

}  // namespace
}  // namespace braid
