#include "pipeline/string_tensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "serving/ovms_status.h"

namespace braid {
namespace {

using ::testing::ElementsAre;

Tensor Strings(const std::vector<std::string>& values) {
  std::string data;
  for (const std::string& value : values) {
    const auto size = static_cast<uint32_t>(value.size());
    data.append(reinterpret_cast<const char*>(&size), sizeof(size)).append(value);
  }
  Tensor tensor{"in", DataType::kBytes, {static_cast<int64_t>(values.size())}, {}};
  tensor.data = CopyToHeap(std::as_bytes(std::span(data)));
  return tensor;
}

TensorSpec Spec(DataType type, const Shape& shape) {
  TensorSpec spec;
  spec.type = type;
  spec.shape = shape;
  return spec;
}

TEST(StringTensors, AreMatricesOfU8) {
  EXPECT_TRUE(TakesStrings(Spec(DataType::kUint8, {-1, -1})));
  EXPECT_FALSE(TakesStrings(Spec(DataType::kUint8, {-1})));
  EXPECT_FALSE(TakesStrings(Spec(DataType::kInt8, {-1, -1})));
  EXPECT_TRUE(GivesStrings({"text_string", DataType::kUint8, {1, 2}, {}}));
  EXPECT_FALSE(GivesStrings({"text", DataType::kUint8, {1, 2}, {}}));
  EXPECT_FALSE(GivesStrings({"text_string", DataType::kInt8, {1, 2}, {}}));
  EXPECT_FALSE(GivesStrings({"text_string", DataType::kUint8, {1, 2, 1}, {}}));
}

TEST(StringTensors, RowsAreFilledUpWithZeros) {
  HeapAllocator heap;
  const auto rows = StringsToRows(Strings({"abc", "", "d"}), heap);
  ASSERT_TRUE(rows.ok()) << rows.status();
  EXPECT_EQ(rows->name, "in");
  EXPECT_EQ(rows->type, DataType::kUint8);
  EXPECT_THAT(rows->shape, ElementsAre(3, 4));
  EXPECT_EQ(rows->data.text(), std::string_view("abc\0\0\0\0\0d\0\0\0", 12));
  const auto back = RowsToStrings(*rows, heap);
  ASSERT_TRUE(back.ok());
  EXPECT_EQ(back->type, DataType::kBytes);
  EXPECT_THAT(back->shape, ElementsAre(3));
  EXPECT_EQ(back->data.text(), Strings({"abc", "", "d"}).data.text());
}

TEST(StringTensors, NoStringsAndRowsWithoutAZeroAreFine) {
  HeapAllocator heap;
  const auto none = StringsToRows(Strings({}), heap);
  ASSERT_TRUE(none.ok());
  EXPECT_THAT(none->shape, ElementsAre(0, 1));
  EXPECT_THAT(RowsToStrings(*none, heap)->shape, ElementsAre(0));

  Tensor full{"s", DataType::kUint8, {2, 2}, CopyToHeap(std::as_bytes(std::span("abcd", 4)))};
  EXPECT_EQ(RowsToStrings(full, heap)->data.text(), Strings({"ab", "cd"}).data.text());
  Tensor narrow{"s", DataType::kUint8, {2, 0}, {}};
  EXPECT_EQ(RowsToStrings(narrow, heap)->data.text(), Strings({"", ""}).data.text());
  narrow.shape = {int64_t{1} << 60, 0};
  EXPECT_FALSE(RowsToStrings(narrow, heap).ok());
}

TEST(StringTensors, BadStringsAreRefused) {
  HeapAllocator heap;
  Tensor strings = Strings({"abc", "d"});
  strings.shape = {1, 2};
  EXPECT_EQ(StringsToRows(strings, heap).status(),
            OvmsError(OvmsCode::kInvalidNoOfShapeDimensions,
                      "Expected number of dimensions of strings: 1; Actual: 2; input name: in"));
  strings.shape = {3};
  EXPECT_EQ(StringsToRows(strings, heap).status(),
            OvmsError(OvmsCode::kInvalidValueCount, "Expected: 3 values; Actual: 2 values; input name: in"));
  strings.shape = {2};
  strings.data = strings.data.Slice(0, strings.data.size() - 1);
  EXPECT_EQ(StringsToRows(strings, heap).status(),
            OvmsError(OvmsCode::kInvalidStringInput, "the data ends inside string 1; input name: in"));
}

TEST(StringTensors, AMatrixThatIsMostlyZerosIsRefused) {
  HeapAllocator heap;
  std::vector<std::string> values(2000);
  values[7] = std::string(1 << 20, 'x');
  EXPECT_EQ(StringsToRows(Strings(values), heap).status(),
            OvmsError(OvmsCode::kInvalidStringInput,
                      "2000 rows of 1048577 bytes are more than 1073741824 bytes; input name: in"));
}

}  // namespace
}  // namespace braid
