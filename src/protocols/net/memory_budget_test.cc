#include "protocols/net/memory_budget.h"

#include <gtest/gtest.h>

namespace braid {
namespace {

constexpr size_t kMost = size_t{1000} << 20;

TEST(MemoryBudget, RefusesNewRequestsFirstAndThenThoseUnderWay) {
  Refusals refusals(nullptr);
  MemoryBudget budget(kMost, refusals);
  const size_t before = MemoryUse();
  ASSERT_LT(before, kMost / 100);
  EXPECT_FALSE(budget.tight());
  EXPECT_TRUE(budget.Admit().ok());
  MemoryCharge charge(kMost / 100 * 85);
  EXPECT_TRUE(budget.tight());
  EXPECT_TRUE(budget.Admit().ok());
  charge.Set(kMost / 100 * 97);
  EXPECT_EQ(budget.Admit().code(), StatusCode::kResourceExhausted);
  EXPECT_EQ(budget.Admit().message(),
            "the server's memory for requests is used up (--memory-max-bytes=1048576000); try again later");
  EXPECT_TRUE(budget.Continue().ok());
  charge.Set(kMost + 1);
  EXPECT_EQ(budget.Continue().code(), StatusCode::kResourceExhausted);
  EXPECT_EQ(refusals.count(Limit::kMemory), 3u);
  charge.Set(0);
  EXPECT_TRUE(budget.Admit().ok());
  EXPECT_FALSE(budget.tight());
}

TEST(MemoryBudget, HoldsBackOnceUntilMemoryIsNoLongerShort) {
  Refusals refusals(nullptr);
  MemoryBudget budget(kMost, refusals);
  int64_t since_ns = 0;
  EXPECT_FALSE(budget.HoldsBack(since_ns));
  MemoryCharge charge(kMost / 100 * 85);
  EXPECT_TRUE(budget.HoldsBack(since_ns));
  EXPECT_TRUE(budget.HoldsBack(since_ns));
  EXPECT_EQ(budget.waited(), 1u);
  since_ns -= 2'000'000'000;  // the maximum wait is over
  EXPECT_FALSE(budget.HoldsBack(since_ns));
  EXPECT_FALSE(budget.HoldsBack(since_ns));
  charge.Set(0);
  EXPECT_FALSE(budget.HoldsBack(since_ns));
  EXPECT_EQ(since_ns, 0);
}

}  // namespace
}  // namespace braid
