#include "serving/reshape.h"

#include <gtest/gtest.h>

namespace braid {
namespace {

TEST(Reshape, FixedDimensionsBecomeTheOthers) {
  Shape shape{2, 6};
  EXPECT_TRUE(Reshape({2, 6}, {3, 4}, shape));
  EXPECT_EQ(shape, (Shape{3, 4}));
}

TEST(Reshape, VariableDimensionsKeepTheirSizesInOrder) {
  Shape shape{5, 4, 7};
  EXPECT_TRUE(Reshape({-1, 4, -1}, {-1, 2, 2, -1}, shape));
  EXPECT_EQ(shape, (Shape{5, 2, 2, 7}));
}

TEST(Reshape, ABatchOfScalarsHasOnlyTheBatchDimension) {
  Shape shape{3, 1};
  EXPECT_TRUE(Reshape({-1, 1}, {-1}, shape));
  EXPECT_EQ(shape, (Shape{3}));
  EXPECT_TRUE(Reshape({-1}, {-1, 1}, shape));
  EXPECT_EQ(shape, (Shape{3, 1}));
}

TEST(Reshape, WhatDoesNotFitStaysAsItIs) {
  Shape shape{3, 2};
  EXPECT_FALSE(Reshape({-1, 1}, {-1}, shape));
  EXPECT_EQ(shape, (Shape{3, 2}));
  EXPECT_FALSE(Reshape({-1}, {-1, 1}, shape));
  EXPECT_EQ(shape, (Shape{3, 2}));
}

}  // namespace
}  // namespace braid
