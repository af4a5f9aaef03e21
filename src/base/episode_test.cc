#include "base/episode.h"

#include <gtest/gtest.h>

namespace braid {
namespace {

constexpr int64_t kSecondNs = 1'000'000'000;

TEST(Episode, BeginsAfterAMinuteWithout) {
  Episode episode;
  EXPECT_TRUE(episode.Goes(100 * kSecondNs));
  EXPECT_FALSE(episode.Goes(101 * kSecondNs));
  EXPECT_FALSE(episode.Goes(160 * kSecondNs));
  EXPECT_FALSE(episode.Goes(219 * kSecondNs));
  EXPECT_TRUE(episode.Goes(280 * kSecondNs));
}

}  // namespace
}  // namespace braid
