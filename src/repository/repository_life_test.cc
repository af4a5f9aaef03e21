#include "repository/repository_life.h"

#include <gtest/gtest.h>

#include <atomic>
#include <limits>
#include <optional>
#include <thread>

#include "base/clock.h"

namespace braid {
namespace {

constexpr int64_t kNever = std::numeric_limits<int64_t>::max() / 2;
constexpr int64_t kSecondNs = 1000000000;

TEST(RepositoryLife, ServesBetweenItsStartAndItsExit) {
  RepositoryLife life;
  EXPECT_FALSE(life.serving());
  EXPECT_TRUE(life.Serve().ok());
  EXPECT_TRUE(life.serving());
  life.Exit();
  EXPECT_FALSE(life.serving());
  EXPECT_TRUE(life.exiting());
  EXPECT_EQ(life.Serve(), UnavailableError("Server exiting"));
  EXPECT_EQ(life.StartPolling("brd-test", [] {}), UnavailableError("Server exiting"));
  EXPECT_TRUE(life.End(SteadyNowNs()));
}

TEST(RepositoryLife, ItsEndWaitsForWorkThatHasBegun) {
  RepositoryLife life;
  std::optional<RepositoryLife::Work> work(life);
  ASSERT_TRUE(work->begun());
  life.Exit();
  EXPECT_FALSE(RepositoryLife::Work(life).begun());
  EXPECT_FALSE(life.End(SteadyNowNs() + 1000));
  std::atomic<bool> over{false};
  std::thread ender([&] {
    EXPECT_TRUE(life.End(SteadyNowNs() + 60 * kSecondNs));
    EXPECT_TRUE(over.load());
  });
  over = true;
  work.reset();
  ender.join();
}

TEST(RepositoryLife, ALoopSleepsUntilItIsWokenAndReturnsAtTheExit) {
  RepositoryLife life;
  std::atomic<int> rounds{0};
  ASSERT_TRUE(life.StartPolling("brd-test",
                                [&] {
                                  while (life.Sleep(kNever)) ++rounds;
                                })
                  .ok());
  for (int round = 1; round <= 3; ++round) {
    EXPECT_EQ(rounds, round - 1);
    life.Wake();
    while (rounds < round) std::this_thread::yield();
  }
  life.Exit();
  EXPECT_TRUE(life.End(SteadyNowNs() + 60 * kSecondNs));
  EXPECT_EQ(rounds, 3);
}

TEST(RepositoryLife, WhatWakesBeforeTheSleepIsNotLost) {
  RepositoryLife life;
  life.Wake();
  EXPECT_TRUE(life.Sleep(kNever));
  EXPECT_TRUE(life.Sleep(SteadyNowNs()));
}

}  // namespace
}  // namespace braid
