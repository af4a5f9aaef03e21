#include "pipeline/convert_precision.h"

#include <gmock/gmock.h>

#include <cmath>
#include <cstring>
#include <limits>

namespace braid {
namespace {

using ::testing::ElementsAre;

template <class T>
Tensor Make(DataType type, const std::vector<T>& values) {
  return {"x", type, {static_cast<int64_t>(values.size())}, CopyToHeap(std::as_bytes(std::span(values)))};
}

template <class To, class From>
std::vector<To> Convert(DataType from, const std::vector<From>& values, DataType to) {
  HeapAllocator heap;
  auto converted = ConvertPrecision(Make(from, values), to, heap);
  EXPECT_TRUE(converted.ok()) << converted.status();
  EXPECT_EQ(converted->type, to);
  std::vector<To> result(converted->data.size() / sizeof(To));
  std::memcpy(result.data(), converted->data.data(), converted->data.size());
  return result;
}

constexpr float kInfinity = std::numeric_limits<float>::infinity();

TEST(ConvertPrecision, IntegersThatFitStayAndOthersGoToTheBounds) {
  EXPECT_THAT((Convert<uint8_t>(DataType::kInt32, std::vector<int32_t>{0, 255, 256, -1}, DataType::kUint8)),
              ElementsAre(0, 255, 255, 0));
  EXPECT_THAT((Convert<int64_t>(DataType::kUint64, std::vector<uint64_t>{1, ~uint64_t{0}}, DataType::kInt64)),
              ElementsAre(1, INT64_MAX));
  EXPECT_THAT(
      (Convert<int8_t>(DataType::kInt16, std::vector<int16_t>{-129, -128, 127, 128}, DataType::kInt8)),
      ElementsAre(-128, -128, 127, 127));
  EXPECT_THAT((Convert<int64_t>(DataType::kInt32, std::vector<int32_t>{-5}, DataType::kInt64)),
              ElementsAre(-5));
}

TEST(ConvertPrecision, FloatsAreCutOffTowardsZero) {
  EXPECT_THAT((Convert<int32_t>(DataType::kFp32,
                                std::vector<float>{1.9f, -1.9f, 3e9f, -3e9f, NAN, kInfinity, 2147483520.f},
                                DataType::kInt32)),
              ElementsAre(1, -1, INT32_MAX, INT32_MIN, 0, INT32_MAX, 2147483520));
  EXPECT_THAT((Convert<uint64_t>(DataType::kFp64, std::vector<double>{-0.5, 1e19, 1e20}, DataType::kUint64)),
              ElementsAre(0u, 10000000000000000000u, UINT64_MAX));
  EXPECT_THAT((Convert<int64_t>(DataType::kFp64, std::vector<double>{9.3e18, -9.3e18}, DataType::kInt64)),
              ElementsAre(INT64_MAX, INT64_MIN));
}

TEST(ConvertPrecision, HalfFloats) {
  const std::vector<float> values{0.f, 1.f, -2.5f, 65504.f, 65520.f, 6.1035156e-05f, 5.9604645e-08f, 1e-9f};
  EXPECT_THAT((Convert<uint16_t>(DataType::kFp32, values, DataType::kFp16)),
              ElementsAre(0x0000, 0x3c00, 0xc100, 0x7bff, 0x7c00, 0x0400, 0x0001, 0x0000));
  // Ties round to even.
  EXPECT_THAT((Convert<uint16_t>(DataType::kFp32, std::vector<float>{1.00048828125f, 1.00146484375f},
                                 DataType::kFp16)),
              ElementsAre(0x3c00, 0x3c02));
  // All values survive the round trip.
  std::vector<uint16_t> all;
  for (uint32_t bits = 0; bits < 65536; ++bits) {
    if ((bits & 0x7c00u) != 0x7c00u) all.push_back(static_cast<uint16_t>(bits));
  }
  const auto floats = Convert<float>(DataType::kFp16, all, DataType::kFp32);
  EXPECT_EQ((Convert<uint16_t>(DataType::kFp32, floats, DataType::kFp16)), all);
  EXPECT_TRUE(std::isnan(Convert<float>(DataType::kFp16, std::vector<uint16_t>{0x7e00}, DataType::kFp32)[0]));
}

TEST(ConvertPrecision, Bfloat) {
  EXPECT_THAT((Convert<uint16_t>(DataType::kFp32, std::vector<float>{1.f, -2.f, 1.00390625f, kInfinity},
                                 DataType::kBf16)),
              ElementsAre(0x3f80, 0xc000, 0x3f80, 0x7f80));
  EXPECT_THAT((Convert<float>(DataType::kBf16, std::vector<uint16_t>{0x3f80, 0x4049}, DataType::kFp32)),
              ElementsAre(1.f, 3.140625f));
  EXPECT_THAT((Convert<uint16_t>(DataType::kFp16, std::vector<uint16_t>{0x4200}, DataType::kBf16)),
              ElementsAre(0x4040));
}

TEST(ConvertPrecision, Booleans) {
  EXPECT_THAT((Convert<uint8_t>(DataType::kFp32, std::vector<float>{0.f, 0.5f, -3.f}, DataType::kBool)),
              ElementsAre(0, 1, 1));
  EXPECT_THAT((Convert<float>(DataType::kBool, std::vector<uint8_t>{0, 1, 7}, DataType::kFp32)),
              ElementsAre(0.f, 1.f, 1.f));
}

TEST(ConvertPrecision, NotOfStringsAndNotOfWrongSizes) {
  EXPECT_FALSE(CanConvert(DataType::kBytes, DataType::kFp32));
  EXPECT_FALSE(CanConvert(DataType::kFp32, DataType::kInvalid));
  EXPECT_TRUE(CanConvert(DataType::kBool, DataType::kBf16));
  HeapAllocator heap;
  Tensor tensor = Make(DataType::kInt32, std::vector<int32_t>{1, 2});
  tensor.shape = {3};
  EXPECT_EQ(
      ConvertPrecision(tensor, DataType::kFp32, heap).status(),
      InvalidArgumentError("tensor 'x' of type INT32, shape [3] and 8 bytes cannot be converted to FP32"));
  tensor.shape = {0};
  tensor.data = Buffer();
  EXPECT_TRUE(ConvertPrecision(tensor, DataType::kFp32, heap).ok());
}

}  // namespace
}  // namespace braid
