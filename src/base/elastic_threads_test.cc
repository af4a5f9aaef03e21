#include "base/elastic_threads.h"

#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <latch>
#include <stdexcept>
#include <vector>

namespace braid {
namespace {

TEST(ElasticThreads, WorkThatThrowsIsTheOnlyOneThatFails) {
  std::promise<void> done;
  ElasticThreads threads({.name = "test", .most = 1});
  threads.Run([] { throw std::runtime_error("it broke"); });
  threads.Run([&done] { done.set_value(); });
  done.get_future().wait();
}

TEST(ElasticThreads, WorkThatWaitsForOtherWorkGetsThreadsOfItsOwn) {
  std::latch together(8);
  std::atomic<int> done = 0;
  ElasticThreads threads({.name = "test", .most = 8});
  for (int i = 0; i < 8; ++i) {
    threads.Run([&] {
      together.arrive_and_wait();
      ++done;
    });
  }
  together.wait();
  EXPECT_EQ(threads.threads(), 8u);
}

TEST(ElasticThreads, MoreThanTheMostNeverRunAtOnceAndAllIsDoneAtTheEnd) {
  std::atomic<int> inside = 0;
  std::atomic<int> most = 0;
  std::atomic<int> done = 0;
  {
    ElasticThreads threads({.name = "test", .most = 3});
    for (int i = 0; i < 1000; ++i) {
      threads.Run([&] {
        const int now = ++inside;
        int before = most;
        while (before < now && !most.compare_exchange_weak(before, now)) {
        }
        --inside;
        ++done;
      });
    }
  }
  EXPECT_LE(most, 3);
  EXPECT_EQ(done, 1000);
}

TEST(ElasticThreads, WorkRunsInOrderOnOneThread) {
  std::vector<int> order;
  {
    ElasticThreads threads({.name = "test", .most = 1});
    for (int i = 0; i < 100; ++i) threads.Run([&order, i] { order.push_back(i); });
  }
  ASSERT_EQ(order.size(), 100u);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(order[static_cast<size_t>(i)], i);
}

TEST(ElasticThreads, IdleThreadsEndAndNewOnesComeWhenNeeded) {
  ElasticThreads threads({.name = "test", .most = 4, .idle = std::chrono::milliseconds(1)});
  for (int round = 0; round < 20; ++round) {
    std::latch done(4);
    for (int i = 0; i < 4; ++i) threads.Run([&] { done.count_down(); });
    done.wait();
    while (threads.threads() != 0) std::this_thread::yield();
  }
}

TEST(ElasticThreads, WorkMayBringMoreWork) {
  std::atomic<int> done = 0;
  {
    ElasticThreads threads({.name = "test", .most = 2});
    threads.Run([&] {
      for (int i = 0; i < 10; ++i) threads.Run([&] { ++done; });
    });
  }
  EXPECT_EQ(done, 10);
}

}  // namespace
}  // namespace braid
