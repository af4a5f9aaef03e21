#include "repository/on_demand_loads.h"

#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <set>

#include "base/clock.h"
#include "base/mutex.h"

namespace braid {
namespace {

class OnDemandLoadsTest : public ::testing::Test {
 protected:
  void Make(OnDemandLoads::Options options) {
    OnDemandLoads::Calls calls;
    calls.load = [this](const std::string& model, int64_t) {
      ++begun_;
      gate_.get_future().wait();
      gate_ = {};
      MutexLock lock(mutex_);
      if (outcome_.status.ok()) loaded_.insert(model);
      return outcome_;
    };
    calls.awaits = [this](const std::string& model, int64_t) {
      MutexLock lock(mutex_);
      return !loaded_.contains(model);
    };
    calls.refresh = [this] { ++refreshed_; };
    calls.count_memory = [](OnDemandCounts& counts) { counts.memory_bytes = 7; };
    loads_ = std::make_unique<OnDemandLoads>(options, std::move(calls));
    ASSERT_TRUE(loads_->Start().ok());
  }
  ~OnDemandLoadsTest() override {
    if (loads_) loads_->Shutdown();
  }

  std::future<Status> Load(const std::string& model, int64_t since_ns = SteadyNowNs()) {
    auto done = std::make_shared<std::promise<Status>>();
    loads_->Load(model, since_ns, [done](const Status& status) { done->set_value(status); });
    return done->get_future();
  }
  void SetOutcome(OnDemandLoads::Outcome outcome) {
    MutexLock lock(mutex_);
    outcome_ = std::move(outcome);
  }

  static constexpr int64_t kLong = 60 * kSecondNs;

  std::atomic<int> begun_ = 0;
  std::atomic<int> refreshed_ = 0;
  std::promise<void> gate_;  // opened for each load
  Mutex mutex_;
  OnDemandLoads::Outcome outcome_ BRAID_GUARDED_BY(mutex_);
  std::set<std::string> loaded_ BRAID_GUARDED_BY(mutex_);
  std::unique_ptr<OnDemandLoads> loads_;
};

TEST_F(OnDemandLoadsTest, SharesALoad) {
  Make({.wait_ns = kLong});
  auto first = Load("m");
  auto second = Load("m");
  EXPECT_EQ(loads_->counts().waiting, 2u);
  gate_.set_value();
  EXPECT_TRUE(first.get().ok());
  EXPECT_TRUE(second.get().ok());
  EXPECT_EQ(begun_, 1);
  const OnDemandCounts counts = loads_->counts();
  EXPECT_EQ(counts.loaded, 1u);
  EXPECT_EQ(counts.failed, 0u);
  EXPECT_EQ(counts.waiting, 0u);
  EXPECT_EQ(counts.memory_bytes, 7u);
}

TEST_F(OnDemandLoadsTest, HasNothingToDoForALoadedModel) {
  Make({.wait_ns = kLong});
  {
    MutexLock lock(mutex_);
    loaded_.insert("m");
  }
  EXPECT_TRUE(Load("m").get().ok());
  EXPECT_EQ(begun_, 0);
}

TEST_F(OnDemandLoadsTest, RepeatsAFaultUntilThePauseIsOver) {
  Make({.wait_ns = kLong, .first_pause_ns = kLong, .longest_pause_ns = kLong});
  SetOutcome({InternalError("no weights\n")});
  gate_.set_value();
  const Status fault = UnavailableError("model 'm' cannot be loaded: no weights");
  EXPECT_EQ(Load("m").get(), fault);
  EXPECT_EQ(Load("m").get(), fault);
  EXPECT_EQ(begun_, 1);
  loads_->Forget("m");
  SetOutcome({});
  gate_.set_value();
  EXPECT_TRUE(Load("m").get().ok());
  EXPECT_EQ(begun_, 2);
}

TEST_F(OnDemandLoadsTest, TriesAgainAtOnceWithoutAPause) {
  Make({.wait_ns = kLong, .first_pause_ns = kLong, .longest_pause_ns = kLong});
  SetOutcome({UnavailableError("others are in use"), false});
  gate_.set_value();
  EXPECT_FALSE(Load("m").get().ok());
  SetOutcome({});
  gate_.set_value();
  EXPECT_TRUE(Load("m").get().ok());
}

TEST_F(OnDemandLoadsTest, EndsAWaitInTime) {
  Make({.wait_ns = 50 * kMillisecondNs});
  auto first = Load("m");
  const Status late = UnavailableError("model 'm' was not loaded within 50 ms (--load-wait-ms)");
  EXPECT_EQ(first.get(), late);
  EXPECT_EQ(Load("m", SteadyNowNs() - kLong).get(), late);
  EXPECT_EQ(loads_->counts().waiting, 0u);
  gate_.set_value();  // the load goes on
  loads_->Shutdown();
}

TEST_F(OnDemandLoadsTest, EndsAllWaitsAtTheEnd) {
  Make({.wait_ns = kLong});
  auto first = Load("a");
  auto second = Load("b");
  loads_->Shutdown();
  EXPECT_EQ(first.get(), UnavailableError("Server exiting"));
  EXPECT_EQ(second.get(), UnavailableError("Server exiting"));
  EXPECT_EQ(Load("c").get(), UnavailableError("Server exiting"));
  gate_.set_value();  // for the load of "a", if it has begun
}

TEST_F(OnDemandLoadsTest, RefreshesRegularly) {
  Make({.wait_ns = kLong, .refresh_ns = kMillisecondNs});
  const int64_t deadline_ns = SteadyNowNs() + kLong;
  while (refreshed_ < 3 && SteadyNowNs() < deadline_ns) std::this_thread::yield();
  EXPECT_GE(refreshed_, 3);
}

}  // namespace
}  // namespace braid
