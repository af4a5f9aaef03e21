#include "protocols/inference/classification.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tensor/bytes_elements.h"

namespace braid {
namespace {

template <class T>
Tensor Make(DataType type, Shape shape, const std::vector<T>& values) {
  Tensor tensor;
  tensor.name = "OUT";
  tensor.type = type;
  tensor.shape = std::move(shape);
  tensor.data = CopyToHeap(std::as_bytes(std::span(values)));
  return tensor;
}

std::vector<std::string> Strings(const Tensor& tensor) {
  std::vector<std::string> strings;
  BytesElements elements(tensor.data.text());
  while (elements.Next()) strings.emplace_back(elements.value());
  return strings;
}

TEST(Classify, OrdersFloatsWithSixDecimals) {
  auto result = Classify(Make<float>(DataType::kFp32, {4}, {0.5f, 2, -1, 2}), 3, false, nullptr);
  ASSERT_TRUE(result.ok());
  EXPECT_EQ(result->type, DataType::kBytes);
  EXPECT_EQ(ShapeToString(result->shape), "[3]");
  EXPECT_EQ(Strings(*result), (std::vector<std::string>{"2.000000:1", "2.000000:3", "0.500000:0"}));
}

TEST(Classify, ClassifiesEachRowWithLabels) {
  TensorSpec spec;
  spec.labels = {"zero", "one"};
  auto result = Classify(Make<int32_t>(DataType::kInt32, {2, 3}, {1, 5, 9, 9, 5, 1}), 2, true, &spec);
  ASSERT_TRUE(result.ok());
  EXPECT_EQ(ShapeToString(result->shape), "[2,2]");
  EXPECT_EQ(Strings(*result), (std::vector<std::string>{"9:2", "5:1:one", "9:0:zero", "5:1:one"}));
}

TEST(Classify, CutsKToTheElementsThereAre) {
  auto result = Classify(Make<uint8_t>(DataType::kUint8, {2}, {3, 4}), 1000, false, nullptr);
  ASSERT_TRUE(result.ok());
  EXPECT_EQ(Strings(*result), (std::vector<std::string>{"4:1", "3:0"}));
  auto one = Classify(Make<int32_t>(DataType::kInt32, {2, 1}, {7, -7}), 3, true, nullptr);
  ASSERT_TRUE(one.ok());
  EXPECT_EQ(Strings(*one), (std::vector<std::string>{"7:0", "-7:0"}));
  auto empty = Classify(Make<double>(DataType::kFp64, {0, 4}, {}), 2, true, nullptr);
  ASSERT_TRUE(empty.ok());
  EXPECT_EQ(ShapeToString(empty->shape), "[0,0]");
  auto no_classes = Classify(Make<double>(DataType::kFp64, {2, 0}, {}), 2, true, nullptr);
  ASSERT_TRUE(no_classes.ok());
  EXPECT_EQ(ShapeToString(no_classes->shape), "[2,0]");
}

TEST(Classify, PutsNanLast) {
  auto result = Classify(Make<double>(DataType::kFp64, {3}, {std::nan(""), -1e300, 1}), 3, false, nullptr);
  ASSERT_TRUE(result.ok());
  EXPECT_EQ(Strings(*result).at(0), "1.000000:2");
  EXPECT_EQ(Strings(*result).at(2).substr(3), ":0");
}

TEST(Classify, RefusesTypesWithoutOrderAndWrongSizes) {
  Tensor bytes;
  bytes.type = DataType::kBytes;
  EXPECT_EQ(Classify(bytes, 1, false, nullptr).status(),
            InvalidArgumentError("class result not available for output due to unsupported type 'BYTES'"));
  EXPECT_EQ(Classify(Make<uint16_t>(DataType::kFp16, {1}, {0}), 1, false, nullptr).status().message(),
            "class result not available for output due to unsupported type 'FP16'");
  EXPECT_FALSE(Classify(Make<float>(DataType::kFp32, {5}, {1}), 1, false, nullptr).ok());
}

TEST(Classify, HasBounds) {
  const auto refusal = InvalidArgumentError("classification output tensor too large");
  const auto zeros = [](const Shape& shape) {
    const auto count = static_cast<size_t>(*ElementCount(shape));
    return Make<uint8_t>(DataType::kUint8, shape, std::vector<uint8_t>(count));
  };
  EXPECT_TRUE(Classify(zeros({1'000'000}), 1, false, nullptr).ok());
  EXPECT_EQ(Classify(zeros({1'000'001}), 1, false, nullptr).status(), refusal);
  EXPECT_EQ(Classify(zeros({3}), 1'000'001, false, nullptr).status(), refusal);
  EXPECT_TRUE(Classify(zeros({4, 500'000}), 1, true, nullptr).ok());
  EXPECT_EQ(Classify(zeros({1025, 1 << 14}), 1, true, nullptr).status(), refusal);
}

}  // namespace
}  // namespace braid
