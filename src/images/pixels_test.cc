#include "images/pixels.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <vector>

namespace braid {
namespace {

using ::testing::ElementsAre;

template <class Number>
std::vector<Number> Convert(DataType type, const std::vector<uint8_t>& pixels) {
  std::vector<Number> numbers(pixels.size());
  ConvertPixels(pixels.data(), pixels.size(), type, reinterpret_cast<std::byte*>(numbers.data()));
  return numbers;
}

TEST(Pixels, KeepTheirValuesInEveryType) {
  const std::vector<uint8_t> pixels = {0, 1, 127, 200, 255};
  EXPECT_THAT(Convert<uint8_t>(DataType::kUint8, pixels), ElementsAre(0, 1, 127, 200, 255));
  EXPECT_THAT(Convert<uint16_t>(DataType::kUint16, pixels), ElementsAre(0, 1, 127, 200, 255));
  EXPECT_THAT(Convert<int16_t>(DataType::kInt16, pixels), ElementsAre(0, 1, 127, 200, 255));
  EXPECT_THAT(Convert<uint32_t>(DataType::kUint32, pixels), ElementsAre(0, 1, 127, 200, 255));
  EXPECT_THAT(Convert<int32_t>(DataType::kInt32, pixels), ElementsAre(0, 1, 127, 200, 255));
  EXPECT_THAT(Convert<uint64_t>(DataType::kUint64, pixels), ElementsAre(0, 1, 127, 200, 255));
  EXPECT_THAT(Convert<int64_t>(DataType::kInt64, pixels), ElementsAre(0, 1, 127, 200, 255));
  EXPECT_THAT(Convert<float>(DataType::kFp32, pixels), ElementsAre(0, 1, 127, 200, 255));
  EXPECT_THAT(Convert<double>(DataType::kFp64, pixels), ElementsAre(0, 1, 127, 200, 255));
}

TEST(Pixels, AreCutAtTheLargestNumberOfInt8) {
  EXPECT_THAT(Convert<int8_t>(DataType::kInt8, {0, 1, 127, 128, 255}), ElementsAre(0, 1, 127, 127, 127));
}

TEST(Pixels, AreExactInSixteenBits) {
  std::vector<uint8_t> all(256);
  for (size_t i = 0; i < all.size(); ++i) all[i] = static_cast<uint8_t>(i);
  const auto halves = Convert<uint16_t>(DataType::kFp16, all);
  const auto brains = Convert<uint16_t>(DataType::kBf16, all);
  EXPECT_EQ(halves[1], 0x3c00);
  EXPECT_EQ(halves[255], 0x5bf8);
  EXPECT_EQ(brains[1], 0x3f80);
  for (size_t i = 1; i < all.size(); ++i) {
    const double half = std::ldexp(1.0 + (halves[i] & 0x3ff) / 1024.0, (halves[i] >> 10) - 15);
    EXPECT_EQ(half, static_cast<double>(i));
    EXPECT_EQ(std::bit_cast<float>(static_cast<uint32_t>(brains[i]) << 16), static_cast<float>(i));
  }
  EXPECT_EQ(halves[0], 0);
  EXPECT_EQ(brains[0], 0);
}

TEST(Pixels, AreHeldByNumbersAlone) {
  for (DataType type : {DataType::kInvalid, DataType::kBool, DataType::kBytes})
    EXPECT_FALSE(HoldsPixels(type));
  for (DataType type : {DataType::kUint8, DataType::kFp32, DataType::kBf16}) EXPECT_TRUE(HoldsPixels(type));
}

}  // namespace
}  // namespace braid
