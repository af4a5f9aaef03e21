#include "workers/restart_pauses.h"

#include <gtest/gtest.h>

#include <vector>

namespace braid {
namespace {

constexpr int64_t kMs = 1'000'000;

TEST(RestartPauses, DoubleForWhatDiesWithoutHavingServed) {
  RestartPauses pauses;
  std::vector<int64_t> ms;
  for (int i = 0; i < 8; ++i) ms.push_back(pauses.After({}) / kMs);
  EXPECT_EQ(ms, (std::vector<int64_t>{200, 400, 800, 1600, 3200, 5000, 5000, 5000}));
  EXPECT_EQ(pauses.failures(), 8);
  for (int i = 0; i < 1000; ++i) pauses.After({});
  EXPECT_EQ(pauses.After({}), RestartPauses::kLongestNs);
}

TEST(RestartPauses, AreNotForWhatHasServed) {
  RestartPauses pauses;
  EXPECT_EQ(pauses.After({.served = true, .up_ns = 1}), 0);
  EXPECT_EQ(pauses.After({.served = true, .killed = true, .up_ns = 1}), 0);
  EXPECT_EQ(pauses.failures(), 0);
}

TEST(RestartPauses, CountNoKillsBySomebodyElse) {
  RestartPauses pauses;
  for (int i = 0; i < 100; ++i) EXPECT_EQ(pauses.After({.killed = true}), RestartPauses::kFirstNs);
  EXPECT_EQ(pauses.failures(), 0);
  EXPECT_EQ(pauses.After({}), RestartPauses::kFirstNs);
}

TEST(RestartPauses, AreForgottenAfterSomeTimeOfService) {
  RestartPauses pauses;
  for (int i = 0; i < 6; ++i) pauses.After({});
  // A short life that served has no pause, but does not reset the earlier count either.
  EXPECT_EQ(pauses.After({.served = true, .up_ns = 9'999 * kMs}), 0);
  EXPECT_EQ(pauses.After({}), RestartPauses::kLongestNs);
  EXPECT_EQ(pauses.After({.up_ns = RestartPauses::kForgottenNs}), 0);
  EXPECT_EQ(pauses.failures(), 0);
  EXPECT_EQ(pauses.After({}), RestartPauses::kFirstNs);
}

}  // namespace
}  // namespace braid
