#include "scheduling/timer_service.h"

#include <gtest/gtest.h>

#include <future>
#include <new>
#include <string>
#include <vector>

namespace braid {
namespace {

constexpr int64_t kHour = 3'600'000'000'000;

// Keeps the timers' thread inside a callback until Release(). All tests declare the objects that callbacks
// use before the timers, whose destructor joins the thread.
class Blocker {
 public:
  TimerId Block(Timers& timers) {
    const TimerId id = timers.At(0, [this] {
      inside_.set_value();
      release_.get_future().wait();
      ended = true;
    });
    inside_.get_future().wait();
    return id;
  }
  void Release() { release_.set_value(); }

  bool ended = false;

 private:
  std::promise<void> inside_;
  std::promise<void> release_;
};

TEST(TimerService, CallsWhatIsDue) {
  std::promise<void> called;
  TimerService timers;
  timers.At(timers.NowNs(), [&called] { called.set_value(); });
  called.get_future().wait();
}

TEST(TimerService, ACallbackThatThrowsIsTheOnlyOneThatFails) {
  std::promise<void> called;
  TimerService timers;
  const int64_t now_ns = timers.NowNs();
  timers.At(now_ns, [] { throw std::bad_alloc(); });
  timers.At(now_ns + 1, [&called] { called.set_value(); });
  called.get_future().wait();
}

TEST(TimerService, WakesForAnEarlierDeadline) {
  std::promise<int64_t> called;
  TimerService timers;
  timers.At(timers.NowNs() + kHour, [] { FAIL(); });
  const int64_t deadline_ns = timers.NowNs() + 2'000'000;
  timers.At(deadline_ns, [&] { called.set_value(timers.NowNs()); });
  EXPECT_GE(called.get_future().get(), deadline_ns);
}

TEST(TimerService, CallsInTheOrderOfDeadlines) {
  std::string order;
  std::promise<void> done;
  Blocker blocker;
  TimerService timers;
  blocker.Block(timers);
  timers.At(3, [&] {
    order += 'c';
    done.set_value();
  });
  timers.At(1, [&] { order += 'a'; });
  timers.At(2, [&] { order += 'b'; });
  blocker.Release();
  done.get_future().wait();
  EXPECT_EQ(order, "abc");
}

TEST(TimerService, NeverCallsWhatWasWithdrawn) {
  std::promise<void> later;
  Blocker blocker;
  TimerService timers;
  blocker.Block(timers);
  const TimerId id = timers.At(1, [] { FAIL(); });
  EXPECT_TRUE(timers.Withdraw(id));
  EXPECT_FALSE(timers.Withdraw(id));
  EXPECT_FALSE(timers.Withdraw({}));
  timers.Cancel({});
  timers.At(2, [&later] { later.set_value(); });
  blocker.Release();
  later.get_future().wait();
}

TEST(TimerService, CancelReturnsAfterARunningCallback) {
  std::promise<void> cancelling;
  Blocker blocker;
  TimerService timers;
  const TimerId id = blocker.Block(timers);
  EXPECT_FALSE(timers.Withdraw(id));
  auto cancelled = std::async(std::launch::async, [&] {
    cancelling.set_value();
    timers.Cancel(id);
    EXPECT_TRUE(blocker.ended);
  });
  cancelling.get_future().wait();
  blocker.Release();
  cancelled.wait();
}

TEST(TimerService, CanBeCancelledFromItsOwnCallback) {
  std::promise<void> called;
  TimerId id;
  Blocker blocker;
  TimerService timers;
  blocker.Block(timers);
  id = timers.At(1, [&] {
    timers.Cancel(id);
    called.set_value();
  });
  blocker.Release();
  called.get_future().wait();
}

TEST(TimerService, EndsWithTimersLeft) {
  auto owned = std::make_shared<int>(1);
  {
    TimerService timers;
    timers.At(timers.NowNs() + kHour, [owned] { FAIL(); });
  }
  EXPECT_EQ(owned.use_count(), 1);
}

}  // namespace
}  // namespace braid
