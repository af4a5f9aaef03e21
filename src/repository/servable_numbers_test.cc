#include "repository/servable_numbers.h"

#include <gtest/gtest.h>

#include <set>

#include "repository/testing/fake_backend.h"

namespace braid {
namespace {

TEST(ServableNumbers, NoTwoServablesHaveTheSameAlsoWhenOneIsGone) {
  testing::Journal journal;
  const auto make = [&journal] {
    return std::make_shared<testing::FakeServable>(
        ServableInfo{}, std::make_unique<testing::FakeModel>(ModelLocation{}), journal);
  };
  ServableNumbers numbers;
  const auto kept = make();
  const uint64_t of_kept = numbers.NumberOf(kept);
  std::set<uint64_t> given = {of_kept};
  // Most of these lie where the one before lay.
  for (int i = 0; i < 100; ++i) EXPECT_TRUE(given.insert(numbers.NumberOf(make())).second);
  EXPECT_EQ(numbers.NumberOf(kept), of_kept);
}

}  // namespace
}  // namespace braid
