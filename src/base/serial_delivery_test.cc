#include "base/serial_delivery.h"

#include <gtest/gtest.h>

#include <atomic>
#include <deque>
#include <functional>
#include <stdexcept>
#include <thread>
#include <vector>

#include "base/mutex.h"

namespace braid {
namespace {

// Calls `calls` with numbers, in the order in which they were left.
class Numbers {
 public:
  template <class Call>
  void Leave(int number, Call call) {
    MutexLock lock(mutex_);
    pending_.push_back(number);
    left_.push_back(number);
    const SerialDelivery::Turn turn(delivery_);
    if (!turn) return;
    while (!pending_.empty()) {
      const int next = pending_.front();
      pending_.pop_front();
      const MutexUnlock unlock(mutex_);
      call(next);
    }
  }
  // REQUIRES: no thread is in Leave().
  const std::deque<int>& left() const BRAID_THREAD_ATTRIBUTE(no_thread_safety_analysis) { return left_; }

 private:
  Mutex mutex_;
  SerialDelivery delivery_ BRAID_GUARDED_BY(mutex_);
  std::deque<int> pending_ BRAID_GUARDED_BY(mutex_);
  std::deque<int> left_ BRAID_GUARDED_BY(mutex_);
};

TEST(SerialDelivery, ThreadsNeverOverlapAndKeepTheOrder) {
  constexpr int kThreads = 4;
  constexpr int kEach = 20'000;
  Numbers numbers;
  std::atomic<int> inside{0};
  std::deque<int> delivered;  // of the thread that delivers
  const auto call = [&](int number) {
    EXPECT_EQ(inside.fetch_add(1), 0);
    delivered.push_back(number);
    inside.fetch_sub(1);
  };
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&, i] {
      for (int k = 0; k < kEach; ++k) numbers.Leave(i * kEach + k, call);
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(delivered.size(), size_t{kThreads} * kEach);
  EXPECT_EQ(delivered, numbers.left());
}

TEST(SerialDelivery, ACallThatLeavesAnotherDoesNotNest) {
  Numbers numbers;
  std::vector<int> delivered;
  int depth = 0;
  std::function<void(int)> call = [&](int number) {
    EXPECT_EQ(depth++, 0);
    delivered.push_back(number);
    if (number < 3) numbers.Leave(number + 1, call);
    --depth;
  };
  numbers.Leave(0, call);
  EXPECT_EQ(delivered, (std::vector<int>{0, 1, 2, 3}));
}

TEST(SerialDelivery, ACallThatThrowsEndsTheTurn) {
  Numbers numbers;
  EXPECT_THROW(numbers.Leave(1, [](int) { throw std::runtime_error("no"); }), std::runtime_error);
  int delivered = 0;
  numbers.Leave(2, [&](int number) { delivered = number; });
  EXPECT_EQ(delivered, 2);
}

}  // namespace
}  // namespace braid
