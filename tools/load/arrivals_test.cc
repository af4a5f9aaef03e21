#include "load/arrivals.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace braid::load {
namespace {

TEST(Arrivals, ComeAtTheRateAndAtRandom) {
  constexpr int kCount = 100000;
  Arrivals arrivals(Distribution::kPoisson, 1000, 7, 5'000'000'000);
  Arrivals same(Distribution::kPoisson, 1000, 7, 5'000'000'000);
  int64_t before_ns = 5'000'000'000;
  double sum = 0;
  double squares = 0;
  for (int i = 0; i < kCount; ++i) {
    EXPECT_EQ(arrivals.next_ns(), same.next_ns());
    const auto gap_ns = static_cast<double>(arrivals.next_ns() - before_ns);
    ASSERT_GE(gap_ns, 0);
    sum += gap_ns;
    squares += gap_ns * gap_ns;
    before_ns = arrivals.next_ns();
    arrivals.Advance();
    same.Advance();
  }
  // The deviation of an exponential distribution is its mean.
  const double mean_ns = sum / kCount;
  EXPECT_NEAR(mean_ns, 1e6, 2e4);
  EXPECT_NEAR(std::sqrt(squares / kCount - mean_ns * mean_ns), 1e6, 3e4);
}

TEST(Arrivals, ComeEvenlyWhereTheyAreToldTo) {
  Arrivals arrivals(Distribution::kConstant, 200, 7, 1'000);
  EXPECT_EQ(arrivals.next_ns(), 5'001'000);
  arrivals.Advance();
  EXPECT_EQ(arrivals.next_ns(), 10'001'000);
}

TEST(Arrivals, RateIsHeldUnlessTheNextOneCameWellBeforeTheEnd) {
  constexpr int64_t kEndNs = 60'000'000'000;
  EXPECT_TRUE(RateHeld(kEndNs + 1, kEndNs));
  // The last arrival is too late to be sent, and shows nothing about the server.
  EXPECT_TRUE(RateHeld(kEndNs - 1, kEndNs));
  EXPECT_TRUE(RateHeld(kEndNs - kUnsentAllowanceNs, kEndNs));
  EXPECT_FALSE(RateHeld(kEndNs - kUnsentAllowanceNs - 1, kEndNs));
}

}  // namespace
}  // namespace braid::load
