#include "tensor/tensor.h"

#include <gtest/gtest.h>

#include "tensor/bytes_elements.h"

namespace braid {
namespace {

TEST(DataType, NamesRoundTrip) {
  for (uint8_t i = 1; i < kDataTypeCount; ++i) {
    auto type = static_cast<DataType>(i);
    EXPECT_EQ(DataTypeFromWireName(WireName(type)), type);
  }
  EXPECT_EQ(DataTypeFromWireName("INVALID"), std::nullopt);
  EXPECT_EQ(DataTypeFromWireName("FP8"), std::nullopt);
  EXPECT_EQ(ConfigName(DataType::kBytes), "TYPE_STRING");
}

TEST(Shape, CountsAreChecked) {
  EXPECT_EQ(ElementCount({2, 3, 4}), 24);
  EXPECT_EQ(ElementCount({}), 1);
  EXPECT_EQ(ElementCount({2, -1}), std::nullopt);
  EXPECT_EQ(ElementCount({int64_t{1} << 62, 4}), std::nullopt);
  EXPECT_EQ(ElementCount({int64_t{1} << 62, 4, 0}), 0);
  EXPECT_EQ(ByteSize(DataType::kFp64, {int64_t{1} << 61}), std::nullopt);
  EXPECT_EQ(ByteSize(DataType::kFp32, {2, 2}), 16u);
  EXPECT_EQ(ByteSize(DataType::kBytes, {2}), std::nullopt);
  EXPECT_TRUE(ShapeMatches({-1, 4}, {7, 4}));
  EXPECT_FALSE(ShapeMatches({-1, 4}, {7, 5}));
  EXPECT_EQ(ShapeToString({-1, 4}), "[-1,4]");
}

TEST(Buffer, SlicesShareTheOwner) {
  HeapAllocator heap;
  Buffer buffer = *heap.Allocate(100);
  ASSERT_EQ(buffer.size(), 100u);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(buffer.data()) % 64, 0u);
  buffer.mutable_data()[99] = std::byte{7};
  Buffer tail = buffer.Slice(90, 10);
  EXPECT_FALSE(buffer.owner()->unique());
  buffer = Buffer();
  EXPECT_TRUE(tail.owner()->unique());
  EXPECT_EQ(tail.data()[9], std::byte{7});
}

TEST(BytesElements, TellsWhereABufferBreaksOff) {
  std::string data("\x02\0\0\0ab\0\0\0\0\x05\0\0\0xyz", 17);
  BytesElements elements(data);
  ASSERT_TRUE(elements.Next());
  EXPECT_EQ(elements.value(), "ab");
  ASSERT_TRUE(elements.Next());
  EXPECT_EQ(elements.value(), "");
  EXPECT_FALSE(elements.Next());
  EXPECT_EQ(elements.truncation(), BytesElements::Truncation::kData);
  EXPECT_EQ(elements.expected_length(), 5u);
  EXPECT_EQ(elements.available(), 3u);

  BytesElements broken("\x01\0");
  EXPECT_FALSE(broken.Next());
  EXPECT_EQ(broken.truncation(), BytesElements::Truncation::kLength);
}

}  // namespace
}  // namespace braid
