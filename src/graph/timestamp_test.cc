#include "graph/timestamp.h"

#include <gtest/gtest.h>

namespace braid::graph {
namespace {

TEST(Timestamp, SpecialValuesAreThoseOfMediaPipe) {
  constexpr int64_t kLeast = std::numeric_limits<int64_t>::min();
  constexpr int64_t kGreatest = std::numeric_limits<int64_t>::max();
  EXPECT_EQ(Timestamp::Unset().value(), kLeast);
  EXPECT_EQ(Timestamp::Unstarted().value(), kLeast + 1);
  EXPECT_EQ(Timestamp::PreStream().value(), kLeast + 2);
  EXPECT_EQ(Timestamp::Min().value(), kLeast + 3);
  EXPECT_EQ(Timestamp::Max().value(), kGreatest - 3);
  EXPECT_EQ(Timestamp::PostStream().value(), kGreatest - 2);
  EXPECT_EQ(Timestamp::OneOverPostStream().value(), kGreatest - 1);
  EXPECT_EQ(Timestamp::Done().value(), kGreatest);
  EXPECT_EQ(Timestamp(), Timestamp::Unset());
}

TEST(Timestamp, Ranges) {
  EXPECT_FALSE(Timestamp::PreStream().IsRangeValue());
  EXPECT_TRUE(Timestamp::Min().IsRangeValue());
  EXPECT_TRUE(Timestamp(0).IsRangeValue());
  EXPECT_TRUE(Timestamp::Max().IsRangeValue());
  EXPECT_FALSE(Timestamp::PostStream().IsRangeValue());
  EXPECT_FALSE(Timestamp::Unstarted().IsAllowedInStream());
  EXPECT_TRUE(Timestamp::PreStream().IsAllowedInStream());
  EXPECT_TRUE(Timestamp::PostStream().IsAllowedInStream());
  EXPECT_FALSE(Timestamp::OneOverPostStream().IsAllowedInStream());
  EXPECT_FALSE(Timestamp::Done().IsAllowedInStream());
}

TEST(Timestamp, WhatMayFollow) {
  EXPECT_EQ(Timestamp(5).NextAllowedInStream(), Timestamp(6));
  EXPECT_EQ(Timestamp(-1).NextAllowedInStream(), Timestamp(0));
  EXPECT_EQ(Timestamp::PreStream().NextAllowedInStream(), Timestamp::OneOverPostStream());
  EXPECT_EQ(Timestamp::PostStream().NextAllowedInStream(), Timestamp::OneOverPostStream());
}

TEST(Timestamp, Texts) {
  EXPECT_EQ(Timestamp::Unset().DebugString(), "Timestamp::Unset()");
  EXPECT_EQ(Timestamp::Unstarted().DebugString(), "Timestamp::Unstarted()");
  EXPECT_EQ(Timestamp::PreStream().DebugString(), "Timestamp::PreStream()");
  EXPECT_EQ(Timestamp::Min().DebugString(), "Timestamp::Min()");
  EXPECT_EQ(Timestamp::Max().DebugString(), "Timestamp::Max()");
  EXPECT_EQ(Timestamp::PostStream().DebugString(), "Timestamp::PostStream()");
  EXPECT_EQ(Timestamp::OneOverPostStream().DebugString(), "Timestamp::OneOverPostStream()");
  EXPECT_EQ(Timestamp::Done().DebugString(), "Timestamp::Done()");
  EXPECT_EQ(Timestamp(-42).DebugString(), "-42");
}

}  // namespace
}  // namespace braid::graph
