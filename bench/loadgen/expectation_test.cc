#include "expectation.h"

#include <gtest/gtest.h>

#include "load/elements.h"

#include <cstring>

namespace braid::bench {
namespace {

OutputView View(const char* name, load::Pieces data) { return {name, "", {}, std::move(data)}; }

std::vector<InputTensor> Inputs(std::initializer_list<const char*> specifications) {
  std::vector<InputTensor> inputs;
  for (const char* specification : specifications) {
    inputs.push_back(MakeInput(specification, static_cast<int>(inputs.size()), 8).value());
  }
  return inputs;
}

std::string Floats(std::initializer_list<float> values) {
  return {reinterpret_cast<const char*>(values.begin()), values.size() * sizeof(float)};
}

TEST(Payload, HasShapeAndWireSize) {
  const auto floats = MakeInput("X:FP32:2x3", 0, 8);
  ASSERT_TRUE(floats.ok());
  EXPECT_EQ(floats->shape, (std::vector<int64_t>{2, 3}));
  EXPECT_EQ(floats->data.size(), 24U);
  EXPECT_EQ(load::JsonElements("FP32", floats->data), "[0,7,14,21,28,35]");
  const auto strings = MakeInput("X:BYTES:2", 0, 8);
  ASSERT_TRUE(strings.ok());
  EXPECT_EQ(strings->data.size(), 24U);
  EXPECT_EQ(load::JsonElements("BYTES", strings->data), R"(["item-0..","item-1.."])");
}

TEST(Payload, RefusesWhatItCannotMake) {
  for (const char* bad : {"", "X", "X:FP32", ":FP32:1", "X:FP32:", "X:FP32:0", "X:FP32:-1", "X:FP32:2x",
                          "X:FP32:2y3", "X:FP16:2", "X:FP32:99999999999x99999999999", "X:FP64:1073741824"}) {
    EXPECT_FALSE(MakeInput(bad, 0, 8).ok()) << bad;
  }
}

TEST(Expectation, AddSubFindsOutputsByName) {
  const auto expectation = Expectation::Make(Validation::kAddSub, Inputs({"A:FP32:2", "B:FP32:2"}), 0);
  ASSERT_TRUE(expectation.ok());
  const std::string sum = Floats({13, 27});
  const std::string difference = Floats({-13, -13});
  EXPECT_TRUE(expectation->Check({View("OUTPUT0", {sum}), View("OUTPUT1", {difference})}, 0).ok());
  EXPECT_TRUE(expectation->Check({View("OUTPUT1", {difference}), View("OUTPUT0", {sum})}, 0).ok());
  EXPECT_FALSE(expectation->Check({View("OUTPUT0", {difference}), View("OUTPUT1", {sum})}, 0).ok());
  EXPECT_FALSE(expectation->Check({View("OUTPUT0", {sum}), View("OUTPUT0", {sum})}, 0).ok());
  EXPECT_FALSE(expectation->Check({View("OUTPUT0", {sum})}, 0).ok());
}

TEST(Expectation, ComparesDataInPieces) {
  const auto inputs = Inputs({"A:FP32:4"});
  const auto expectation = Expectation::Make(Validation::kIdentity, inputs, 0);
  ASSERT_TRUE(expectation.ok());
  const std::string_view data = inputs[0].data;
  EXPECT_TRUE(expectation->Check({View("OUTPUT0", {data.substr(0, 5), data.substr(5)})}, 0).ok());
  EXPECT_FALSE(expectation->Check({View("OUTPUT0", {data.substr(5), data.substr(0, 5)})}, 0).ok());
}

TEST(Expectation, ComparesSizesOfEachResponseAndBytesOfSome) {
  const auto inputs = Inputs({"A:FP32:32768"});
  const auto expectation = Expectation::Make(Validation::kIdentity, inputs, 0);
  ASSERT_TRUE(expectation.ok());
  const std::string wrong(inputs[0].data.size(), 'x');
  EXPECT_FALSE(expectation->Check({View("OUTPUT0", {wrong})}, 0).ok());
  EXPECT_TRUE(expectation->Check({View("OUTPUT0", {wrong})}, 1).ok());
  EXPECT_FALSE(expectation->Check({View("OUTPUT0", {wrong})}, 16).ok());
  EXPECT_FALSE(expectation->Check({View("OUTPUT0", {std::string_view(wrong).substr(1)})}, 1).ok());
}

TEST(Expectation, NoneLooksAtNothing) {
  const auto expectation = Expectation::Make(Validation::kNone, {}, 0);
  ASSERT_TRUE(expectation.ok());
  EXPECT_TRUE(expectation->Check({}, 0).ok());
}

}  // namespace
}  // namespace braid::bench
