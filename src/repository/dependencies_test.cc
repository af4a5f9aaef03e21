#include "repository/dependencies.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace braid {
namespace {

using ::testing::ElementsAre;

TEST(Dependencies, WhatIsUsedComesFirst) {
  EXPECT_THAT(
      LoadOrder({{"e", {"a", "inner"}}, {"inner", {"b"}}, {"a", {}}, {"b", {}}, {"lone", {"elsewhere"}}}),
      ElementsAre(ElementsAre("a", "b", "lone"), ElementsAre("inner"), ElementsAre("e")));
  EXPECT_THAT(LoadOrder({{"a", {}}, {"x", {"y"}}, {"y", {"x"}}, {"z", {"y"}}}),
              ElementsAre(ElementsAre("a"), ElementsAre("x", "y", "z")));
}

TEST(Dependencies, FindsCircles) {
  const Dependencies uses = {{"x", {"a", "y"}}, {"y", {"z"}}, {"z", {"x"}},
                             {"w", {"x"}},      {"a", {}},    {"s", {"s"}}};
  EXPECT_EQ(FindCycle(uses, "x"), "x -> y -> z -> x");
  EXPECT_EQ(FindCycle(uses, "z"), "z -> x -> y -> z");
  EXPECT_EQ(FindCycle(uses, "s"), "s -> s");
  EXPECT_EQ(FindCycle(uses, "w"), "");
  EXPECT_EQ(FindCycle(uses, "a"), "");
  EXPECT_EQ(FindCycle(uses, "unknown"), "");
}

TEST(Dependencies, FollowsUsesToTheirEnd) {
  const Dependencies uses = {{"e", {"a", "inner"}}, {"inner", {"b", "e"}}};
  EXPECT_THAT(UsedBy(uses, "e"), ElementsAre("a", "b", "inner"));
  EXPECT_THAT(UsedBy(uses, "a"), ElementsAre());
}

}  // namespace
}  // namespace braid
