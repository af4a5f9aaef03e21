#include "tensor/half_float.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>

namespace braid {
namespace {

TEST(HalfFloat, EveryHalfIsAFloatAndBack) {
  for (uint32_t i = 0; i < 0x10000; ++i) {
    const auto half = static_cast<uint16_t>(i);
    const float value = FloatFromHalf(half);
    if (std::isnan(value)) {
      EXPECT_TRUE((half & 0x7c00) == 0x7c00 && (half & 0x3ff) != 0);
      EXPECT_TRUE(std::isnan(FloatFromHalf(HalfFromFloat(value))));
    } else {
      ASSERT_EQ(HalfFromFloat(value), half);
    }
  }
  EXPECT_EQ(FloatFromHalf(0x3c00), 1.0F);
  EXPECT_EQ(FloatFromHalf(0xc000), -2.0F);
  EXPECT_EQ(FloatFromHalf(0x7bff), 65504.0F);
  EXPECT_EQ(FloatFromHalf(0x0001), std::ldexp(1.0F, -24));
}

TEST(HalfFloat, RoundsToTheNearestAndTiesToEven) {
  for (uint16_t half = 0; half < 0x7bff; ++half) {
    const float low = FloatFromHalf(half);
    const float high = FloatFromHalf(static_cast<uint16_t>(half + 1));
    const float middle = (low + high) / 2;  // exact
    const uint16_t even = half % 2 == 0 ? half : static_cast<uint16_t>(half + 1);
    ASSERT_EQ(HalfFromFloat(middle), even);
    ASSERT_EQ(HalfFromFloat(std::nextafter(middle, 0.0F)), half);
    ASSERT_EQ(HalfFromFloat(std::nextafter(middle, 1e9F)), half + 1);
    ASSERT_EQ(HalfFromFloat(-middle), even | 0x8000);
  }
  EXPECT_EQ(HalfFromFloat(65519.996F), 0x7bff);
  EXPECT_EQ(HalfFromFloat(65520.0F), 0x7c00);
  EXPECT_EQ(HalfFromFloat(std::numeric_limits<float>::infinity()), 0x7c00);
  EXPECT_EQ(HalfFromFloat(1e-30F), 0);
}

TEST(Bf16, RoundsToTheNearestAndTiesToEven) {
  for (uint32_t i = 0; i < 0x10000; ++i) {
    const auto bits = static_cast<uint16_t>(i);
    const float value = FloatFromBf16(bits);
    if (std::isnan(value)) continue;
    ASSERT_EQ(Bf16FromFloat(value), bits);
  }
  EXPECT_EQ(Bf16FromFloat(1.0F), 0x3f80);
  EXPECT_EQ(Bf16FromFloat(std::bit_cast<float>(0x3f808000U)), 0x3f80);
  EXPECT_EQ(Bf16FromFloat(std::bit_cast<float>(0x3f808001U)), 0x3f81);
  EXPECT_EQ(Bf16FromFloat(std::bit_cast<float>(0x3f818000U)), 0x3f82);
  EXPECT_TRUE(std::isnan(FloatFromBf16(Bf16FromFloat(std::numeric_limits<float>::quiet_NaN()))));
}

}  // namespace
}  // namespace braid
