#include "scheduling/rate_limiter.h"

#include <gtest/gtest.h>

#include "scheduling/testing/manual_timers.h"

namespace braid {
namespace {

struct Fixture {
  explicit Fixture(std::vector<ResourceLimit> limits = {}) : limiter(std::move(limits), timers) {}

  std::unique_ptr<RateLimiter::Ticket> Register(std::vector<ResourceNeed> needs, uint32_t priority = 1,
                                                int* chances = nullptr, int device = 0) {
    auto ticket = limiter.Register(needs, device, priority, [chances] {
      if (chances != nullptr) ++*chances;
    });
    EXPECT_TRUE(ticket.ok()) << ticket.status().message();
    return std::move(ticket).value();
  }

  ManualTimers timers;
  RateLimiter limiter;
};

TEST(RateLimiter, OneRunsWhileTheOtherWaitsForWhatIsTaken) {
  Fixture f;
  int chances = 0;
  auto a = f.Register({{"R", false, 4}});
  auto b = f.Register({{"R", false, 3}}, 1, &chances);
  EXPECT_TRUE(a->TryAcquire());
  EXPECT_FALSE(b->TryAcquire());
  f.timers.Run();
  EXPECT_EQ(chances, 0);
  a->Release();
  f.timers.Run();
  EXPECT_EQ(chances, 1);
  EXPECT_TRUE(b->TryAcquire());
  // The first cannot take reserved resources.
  EXPECT_FALSE(a->TryAcquire());
}

TEST(RateLimiter, DevicesHaveTheirOwnAndAGlobalResourceIsOne) {
  Fixture f({{"R", 1, -1}});
  auto a = f.Register({{"R", false, 1}}, 1, nullptr, 0);
  auto b = f.Register({{"R", false, 1}}, 1, nullptr, 1);
  EXPECT_TRUE(a->TryAcquire());
  EXPECT_TRUE(b->TryAcquire());
  auto c = f.Register({{"R", true, 1}}, 1, nullptr, 0);
  auto d = f.Register({{"R", true, 1}}, 1, nullptr, 1);
  EXPECT_TRUE(c->TryAcquire());
  EXPECT_FALSE(d->TryAcquire());
}

TEST(RateLimiter, ALimitThatNobodyCouldMeetIsAnError) {
  Fixture f({{"R", 2, -1}, {"R", 5, 1}});
  const auto refused = f.limiter.Register({{"R", false, 3}}, 0, 1, [] {});
  EXPECT_EQ(refused.status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(refused.status().message(),
            "Resource count for \"R\" is limited to 2 which will prevent scheduling of one or more model "
            "instances, the minimum required count is 3");
  EXPECT_TRUE(f.limiter.Register({{"R", false, 5}}, 1, 1, [] {}).ok());
}

TEST(RateLimiter, PrioritySharesTheChances) {
  Fixture f({{"R", 1, -1}});
  auto often = f.Register({{"R", false, 1}}, 1);
  auto seldom = f.Register({{"R", false, 1}}, 3);
  EXPECT_TRUE(often->TryAcquire());
  EXPECT_FALSE(seldom->TryAcquire());
  int runs[2] = {};
  bool first_runs = true;
  for (int i = 0; i < 400; ++i) {
    ++runs[first_runs ? 0 : 1];
    (first_runs ? often : seldom)->Release(true);
    // Only the ticket whose turn it is gets the resource.
    first_runs = often->TryAcquire();
    ASSERT_NE(seldom->TryAcquire(), first_runs);
  }
  EXPECT_NEAR(runs[0], 300, 2);
  EXPECT_NEAR(runs[1], 100, 2);
}

TEST(RateLimiter, WhoNeedsMuchIsNotOvertakenForEver) {
  Fixture f({{"R", 2, -1}});
  int chances = 0;
  auto first = f.Register({{"R", false, 1}});
  auto second = f.Register({{"R", false, 1}}, 10);
  auto large = f.Register({{"R", false, 2}}, 1, &chances);
  EXPECT_TRUE(first->TryAcquire());
  EXPECT_FALSE(large->TryAcquire());
  // One is free, but reserved.
  EXPECT_FALSE(second->TryAcquire());
  first->Release();
  f.timers.Run();
  EXPECT_EQ(chances, 1);
  EXPECT_TRUE(large->TryAcquire());
  large->Release();
  EXPECT_TRUE(second->TryAcquire());
}

TEST(RateLimiter, WhoWaitsAndGoesHoldsNothingUp) {
  Fixture f({{"R", 1, -1}});
  auto a = f.Register({{"R", false, 1}});
  auto b = f.Register({{"R", false, 1}});
  EXPECT_TRUE(a->TryAcquire());
  EXPECT_FALSE(b->TryAcquire());
  b.reset();
  a->Release();
  EXPECT_TRUE(a->TryAcquire());
  a.reset();
  auto c = f.Register({{"R", false, 1}});
  EXPECT_TRUE(c->TryAcquire());
}

TEST(RateLimiter, ReadsTheFormOfTheOption) {
  EXPECT_EQ(*ParseResourceLimit("R1:10"), (ResourceLimit{"R1", 10, -1}));
  EXPECT_EQ(*ParseResourceLimit("R1:10:2"), (ResourceLimit{"R1", 10, 2}));
  for (const char* wrong : {"", "R1", "R1:", ":3", "R1:-1", "R1:1:", "R1:1:x", "R1:1:2:3"}) {
    EXPECT_FALSE(ParseResourceLimit(wrong).ok()) << wrong;
  }
}

}  // namespace
}  // namespace braid
