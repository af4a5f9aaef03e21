#include "protocols/net/event_loop.h"

#include <gtest/gtest.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <semaphore>

#include "base/clock.h"

namespace braid {
namespace {

class EventLoopTest : public ::testing::Test {
 protected:
  EventLoopTest() : loop_(*EventLoop::Create("brd-test")) { loop_->Start(); }
  ~EventLoopTest() override { loop_->Stop(); }

  // Runs `work` on the loop's thread, and waits for it.
  void Run(const std::function<void()>& work) {
    std::binary_semaphore done(0);
    ASSERT_TRUE(loop_->Post([&] {
      work();
      done.release();
    }));
    done.acquire();
  }

  const std::unique_ptr<EventLoop> loop_;
};

struct Pair {
  Pair() {
    int fds[2] = {-1, -1};
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds), 0);
    ours = UniqueFd(fds[0]);
    theirs = UniqueFd(fds[1]);
  }
  UniqueFd ours;
  UniqueFd theirs;
};

struct Recorder : EventLoop::Watcher {
  explicit Recorder(std::function<void(uint32_t)> its_events) : events(std::move(its_events)) {}
  void OnEvents(uint32_t happened) override { events(happened); }
  std::function<void(uint32_t)> events;
};

TEST_F(EventLoopTest, RunsTasksOnItsThreadInTheirOrder) {
  std::vector<int> order;
  for (int i = 0; i < 100; ++i) {
    ASSERT_TRUE(loop_->Post([&order, i] { order.push_back(i); }));
  }
  std::thread::id thread;
  Run([&] { thread = std::this_thread::get_id(); });
  std::thread::id again;
  Run([&] { again = std::this_thread::get_id(); });
  EXPECT_NE(thread, std::this_thread::get_id());
  EXPECT_EQ(again, thread);
  ASSERT_EQ(order.size(), 100u);
  EXPECT_TRUE(std::is_sorted(order.begin(), order.end()));
}

TEST_F(EventLoopTest, WakesUpForEachOfManyThreads) {
  std::atomic<int> ran{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 500; ++i) {
        std::binary_semaphore done(0);
        loop_->Post([&] {
          ++ran;
          done.release();
        });
        done.acquire();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(ran, 2000);
}

TEST_F(EventLoopTest, TellsOfADescriptorUntilItIsUnwatched) {
  Pair pair;
  std::counting_semaphore<> told(0);
  std::atomic<uint32_t> seen{0};
  Run([&] {
    EXPECT_TRUE(
        loop_
            ->Watch(pair.ours.get(), EPOLLIN | EPOLLRDHUP, std::make_shared<Recorder>([&](uint32_t events) {
                      seen |= events;
                      told.release();
                    }))
            .ok());
  });
  ASSERT_EQ(::write(pair.theirs.get(), "a", 1), 1);
  told.acquire();
  EXPECT_NE(seen & EPOLLIN, 0u);
  // Edge-triggered: new input reports unread input again.
  ASSERT_EQ(::write(pair.theirs.get(), "b", 1), 1);
  told.acquire();
  Run([&] { loop_->Unwatch(pair.ours.get()); });
  ASSERT_EQ(::write(pair.theirs.get(), "c", 1), 1);
  Run([] {});
  EXPECT_FALSE(told.try_acquire());
}

TEST_F(EventLoopTest, TellsNothingMoreToAWatcherThatWasUnwatchedInTheSameRound) {
  std::array<Pair, 8> pairs;
  std::atomic<int> told{0};
  Run([&] {
    for (Pair& pair : pairs) {
      EXPECT_TRUE(loop_
                      ->Watch(pair.ours.get(), EPOLLIN, std::make_shared<Recorder>([&](uint32_t) {
                                ++told;
                                for (Pair& other : pairs) loop_->Unwatch(other.ours.get());
                              }))
                      .ok());
    }
    // All have input before the loop waits next.
    for (Pair& pair : pairs) EXPECT_EQ(::write(pair.theirs.get(), "x", 1), 1);
  });
  Run([] {});
  Run([] {});
  EXPECT_EQ(told, 1);
}

TEST_F(EventLoopTest, CallsTimersInTheirOrderAndNotThoseThatWereWithdrawn) {
  std::vector<int> due;
  std::binary_semaphore last(0);
  Run([&] {
    const int64_t now_ns = SteadyNowNs();
    loop_->At(now_ns + 3'000'000, [&] {
      due.push_back(3);
      last.release();
    });
    loop_->At(now_ns + 1'000'000, [&] { due.push_back(1); });
    const auto withdrawn = loop_->At(now_ns + 2'000'000, [&] { due.push_back(2); });
    loop_->Withdraw(withdrawn);
  });
  last.acquire();
  EXPECT_EQ(due, (std::vector<int>{1, 3}));
}

TEST_F(EventLoopTest, GoesOnAfterWhatThrows) {
  ASSERT_TRUE(loop_->Post([] { throw std::bad_alloc(); }));
  bool ran = false;
  Run([&] { ran = true; });
  EXPECT_TRUE(ran);
}

TEST_F(EventLoopTest, TakesNoTasksOnceItIsStopped) {
  bool ran = false;
  ASSERT_TRUE(loop_->Post([&] { ran = true; }));
  loop_->Stop();
  EXPECT_TRUE(ran) << "what was taken is run";
  EXPECT_FALSE(loop_->Post([] {}));
}

}  // namespace
}  // namespace braid
