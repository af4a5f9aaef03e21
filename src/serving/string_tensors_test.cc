#include "serving/string_tensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "serving/faults.h"
#include "tensor/bytes_elements.h"
#include "tensor/testing/restless_bytes.h"

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

// Converts an input "in" for a servable with this specification.
Result<Tensor> Take(Tensor input, DataType type = DataType::kUint8, const Shape& shape = Shape(2, -1)) {
  ServableInfo info;
  info.inputs.emplace_back();
  info.inputs[0].name = "in";
  info.inputs[0].type = type;
  info.inputs[0].shape = shape;
  InferenceRequest request;
  request.inputs.push_back(std::move(input));
  BRAID_RETURN_IF_ERROR(StringsToRows(info, request));
  return request.inputs[0];
}

Result<Tensor> Give(std::string name, DataType type, const Shape& shape, std::string_view data) {
  std::vector<Tensor> outputs;
  outputs.push_back({std::move(name), type, shape, CopyToHeap(std::as_bytes(std::span(data)))});
  BRAID_RETURN_IF_ERROR(RowsToStrings(outputs));
  return outputs[0];
}

TEST(StringTensors, StringsBecomeRowsThatAreFilledUpWithZeros) {
  const auto rows = Take(Strings({"abc", "", "d"}));
  ASSERT_TRUE(rows.ok()) << rows.status();
  EXPECT_EQ(rows->name, "in");
  EXPECT_EQ(rows->type, DataType::kUint8);
  EXPECT_THAT(rows->shape, ElementsAre(3, 4));
  EXPECT_EQ(rows->data.text(), std::string_view("abc\0\0\0\0\0d\0\0\0", 12));
  EXPECT_THAT(Take(Strings({}))->shape, ElementsAre(0, 1));
}

// The bytes alternate while they are read. A size computed from one reading is too small for the other.
TEST(StringTensors, StringsThatChangeMeanwhileStayWithinTheirRows) {
  constexpr size_t kSize = 5 * 4000;
  const Buffer restless = RestlessBytes(OneElement(kSize), ManyElements(kSize));
  for (int i = 0; i < 1000; ++i) {
    for (const int64_t count : {int64_t{1}, static_cast<int64_t>(kSize / 5)}) {
      const auto rows = Take({"in", DataType::kBytes, {count}, restless});
      if (!rows.ok()) continue;
      ASSERT_EQ(rows->data.size(), static_cast<size_t>(rows->shape[0] * rows->shape[1]));
    }
  }
}

TEST(StringTensors, RowsThatChangeMeanwhileStayWithinTheirStrings) {
  constexpr size_t kSize = 20'000;
  const Buffer restless = RestlessBytes(std::string(kSize, '\0'), std::string(kSize, 'x'));
  for (int i = 0; i < 1000; ++i) {
    std::vector<Tensor> outputs = {{"a_string", DataType::kUint8, {200, kSize / 200}, restless}};
    ASSERT_TRUE(RowsToStrings(outputs).ok());
    BytesElements elements(outputs[0].data.text());
    int count = 0;
    while (elements.Next()) ++count;
    ASSERT_FALSE(elements.truncated());
    ASSERT_EQ(count, 200);
  }
}

TEST(StringTensors, OnlyBytesForMatricesOfU8Become) {
  EXPECT_EQ(Take(Strings({"a"}), DataType::kInt8)->type, DataType::kBytes);
  EXPECT_EQ(Take(Strings({"a"}), DataType::kBytes)->type, DataType::kBytes);
  EXPECT_EQ(Take(Strings({"a"}), DataType::kUint8, Shape(1, -1))->type, DataType::kBytes);
  Tensor other = Strings({"a"});
  other.name = "other";
  EXPECT_EQ(Take(other)->type, DataType::kBytes);
  const Tensor numbers{"in", DataType::kUint8, Shape(2, 0), {}};
  EXPECT_THAT(Take(numbers)->shape, ElementsAre(0, 0));
}

TEST(StringTensors, RowsBecomeStringsUpToTheirFirstZero) {
  const auto strings = Give("text_string", DataType::kUint8, {3, 4}, {"abc\0\0\0\0\0d\0e\0", 12});
  ASSERT_TRUE(strings.ok()) << strings.status();
  EXPECT_EQ(strings->name, "text_string");
  EXPECT_EQ(strings->type, DataType::kBytes);
  EXPECT_THAT(strings->shape, ElementsAre(3));
  EXPECT_EQ(strings->data.text(), Strings({"abc", "", "d"}).data.text());
  EXPECT_EQ(Give("_string", DataType::kUint8, {2, 2}, "abcd")->data.text(),
            Strings({"ab", "cd"}).data.text());
  EXPECT_EQ(Give("_string", DataType::kUint8, {2, 0}, "")->data.text(), Strings({"", ""}).data.text());
  EXPECT_THAT(Give("_string", DataType::kUint8, {0, 2}, "")->shape, ElementsAre(0));
}

TEST(StringTensors, OtherOutputsStayAsTheyAre) {
  EXPECT_EQ(Give("text", DataType::kUint8, {1, 2}, "ab")->type, DataType::kUint8);
  EXPECT_EQ(Give("text_string", DataType::kInt8, {1, 2}, "ab")->type, DataType::kInt8);
  EXPECT_EQ(Give("text_string", DataType::kUint8, {1, 2, 1}, "ab")->type, DataType::kUint8);
}

TEST(StringTensors, BadStringsAreRefused) {
  Tensor strings = Strings({"abc", "d"});
  strings.shape = {1, 2};
  EXPECT_EQ(Take(strings).status(),
            FaultError(Fault::kInvalidNoOfShapeDimensions,
                       "Expected number of dimensions of strings: 1; Actual: 2; input name: in"));
  strings.shape = {3};
  EXPECT_EQ(Take(strings).status(),
            FaultError(Fault::kInvalidValueCount, "Expected: 3 values; Actual: 2 values; input name: in"));
  strings.shape = {2};
  strings.data = strings.data.Slice(0, strings.data.size() - 1);
  EXPECT_EQ(Take(strings).status(),
            FaultError(Fault::kInvalidStringInput, "the data ends inside string 1; input name: in"));
}

TEST(StringTensors, MatricesThatAreMostlyZerosAreRefused) {
  std::vector<std::string> values(2000);
  values[7] = std::string(1 << 20, 'x');
  EXPECT_EQ(Take(Strings(values)).status(),
            FaultError(Fault::kInvalidStringInput,
                       "2000 rows of 1048577 bytes are more than 268435456 bytes; input name: in"));
  EXPECT_EQ(Give("_string", DataType::kUint8, {int64_t{1} << 60, 0}, "").status().code(),
            StatusCode::kInternal);
}

}  // namespace
}  // namespace braid
