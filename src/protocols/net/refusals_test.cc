#include "protocols/net/refusals.h"

#include <gtest/gtest.h>

#include <set>

namespace braid {
namespace {

TEST(Refusals, CountsEachLimitByTheNameOfItsOption) {
  Refusals refusals(nullptr);
  std::set<std::string_view> names;
  for (size_t i = 0; i < kLimitCount; ++i) {
    const auto limit = static_cast<Limit>(i);
    EXPECT_FALSE(LimitName(limit).empty());
    names.insert(LimitName(limit));
    for (size_t n = 0; n <= i; ++n) refusals.Count(limit, "x");
    EXPECT_EQ(refusals.count(limit), i + 1);
  }
  EXPECT_EQ(names.size(), kLimitCount);
}

}  // namespace
}  // namespace braid
