#include "serving/request_check.h"

#include <gtest/gtest.h>

#include <limits>

namespace braid {
namespace {

Buffer Bytes(size_t size) { return HeapAllocator().Allocate(size).value(); }

Buffer Text(std::string_view text) { return CopyToHeap(std::as_bytes(std::span(text.data(), text.size()))); }

// Returns the wire form of `strings`.
std::string Strings(const std::vector<std::string>& strings) {
  std::string wire;
  for (const std::string& s : strings) {
    const auto length = static_cast<uint32_t>(s.size());
    wire.append(reinterpret_cast<const char*>(&length), sizeof(length)).append(s);
  }
  return wire;
}

std::string Numbered(std::string name, int number) { return name.append(std::to_string(number)); }

class CheckRequestTest : public ::testing::Test {
 protected:
  CheckRequestTest() {
    info_.name = "m";
    info_.inputs = {Spec("A", DataType::kFp32, {2}), Spec("B", DataType::kFp32, {-1})};
    info_.outputs = {Spec("X", DataType::kFp32, {2}), Spec("Y", DataType::kFp32, {2})};
    request_.id = "7";
  }
  static TensorSpec Spec(std::string name, DataType type, const Shape& shape, bool optional = false) {
    return {std::move(name), type, shape, optional, false, {}};
  }
  // Adds an input with as many bytes as its shape implies.
  void Add(std::string name, Shape shape, DataType type = DataType::kFp32) {
    const size_t size = ByteSize(type, shape).value_or(0);
    request_.inputs.push_back({std::move(name), type, std::move(shape), Bytes(size)});
  }
  // Returns the error text; "" for a good request.
  std::string Check() {
    const Status status = CheckRequest(info_, request_);
    EXPECT_TRUE(status.ok() || status.code() == StatusCode::kInvalidArgument);
    return status.message();
  }
  void UseBatching(int64_t max_batch_size) {
    info_.max_batch_size = max_batch_size;
    for (TensorSpec& spec : info_.inputs) {
      Shape batched = {-1};
      for (int64_t size : spec.shape) batched.push_back(size);
      spec.shape = batched;
    }
  }
  // Checks one BYTES input "S" of shape [2] with these bytes.
  std::string CheckStrings(std::string_view wire) {
    info_.inputs = {Spec("S", DataType::kBytes, {2})};
    request_.inputs.clear();
    request_.inputs.push_back({"S", DataType::kBytes, {2}, Text(wire)});
    return Check();
  }

  ServableInfo info_;
  InferenceRequest request_;
};

TEST_F(CheckRequestTest, TakesAGoodRequest) {
  Add("A", {2});
  Add("B", {5});
  request_.requested_outputs = {"Y", "X"};
  EXPECT_EQ(Check(), "");
  EXPECT_EQ(request_.batch_size, 1);
}

TEST_F(CheckRequestTest, TakesInputsInAnyOrderAndEmptyOnes) {
  Add("B", {0});
  Add("A", {2});
  EXPECT_EQ(Check(), "");
}

TEST_F(CheckRequestTest, NamesMissingInputs) {
  Add("B", {5});
  EXPECT_EQ(Check(),
            "[request id: 7] expected 2 inputs but got 1 inputs for model 'm'. Got input(s) ['B'], but "
            "missing required "
            "input(s) ['A']. Please provide all required input(s).");
  request_.inputs.clear();
  request_.id.clear();
  EXPECT_EQ(Check(),
            "[request id: <id_unknown>] expected 2 inputs but got 0 inputs for model 'm'. Got input(s) [], "
            "but missing "
            "required input(s) ['A','B']. Please provide all required input(s).");
}

TEST_F(CheckRequestTest, NamesMissingInputsBesideOptionalOnes) {
  info_.inputs.push_back(Spec("C", DataType::kFp32, {1}, true));
  Add("A", {2});
  EXPECT_EQ(Check(),
            "[request id: 7] expected number of inputs between 2 and 3 but got 1 inputs for model 'm'. Got "
            "input(s) ['A'], "
            "but missing required input(s) ['B']. Please provide all required input(s).");
  // The number of inputs is right, but a required one is missing.
  Add("C", {1});
  EXPECT_NE(Check().find("missing required input(s) ['B']"), std::string::npos);
  Add("B", {1});
  EXPECT_EQ(Check(), "");
  request_.inputs.erase(request_.inputs.begin() + 1);
  EXPECT_EQ(Check(), "");
}

TEST_F(CheckRequestTest, RefusesTooManyInputs) {
  Add("A", {2});
  Add("B", {1});
  Add("Q", {1});
  EXPECT_EQ(Check(),
            "[request id: 7] expected 2 inputs but got 3 inputs for model 'm'. Got input(s) ['A','B','Q'], "
            "but missing "
            "required input(s) []. Please provide all required input(s).");
}

TEST_F(CheckRequestTest, KeepsTextsShortForManyInputs) {
  for (int i = 0; i < 100'000; ++i) request_.inputs.push_back({Numbered("Q", i), DataType::kFp32, {}, {}});
  const std::string text = Check();
  EXPECT_LT(text.size(), 1000u);
  EXPECT_NE(text.find("'Q63',...], but missing required input(s) ['A','B']"), std::string::npos);
}

TEST_F(CheckRequestTest, RefusesUnknownNames) {
  Add("A", {2});
  Add("Q", {1});
  EXPECT_EQ(Check(), "unexpected inference input 'Q' for model 'm'");
  request_.inputs[1].name = "B";
  request_.requested_outputs = {"X", "Z"};
  EXPECT_EQ(Check(), "unexpected inference output 'Z' for model 'm'");
}

TEST_F(CheckRequestTest, LetsAnyTensorsPass) {
  info_.inputs.clear();
  info_.outputs.clear();
  info_.any_tensors = true;
  Add("A", {2});
  Add("Q", {1, 3});
  request_.requested_outputs = {"X", "Z"};
  EXPECT_EQ(Check(), "");
  request_.inputs[1].shape = {-1};
  EXPECT_EQ(Check(),
            "[request id: 7] unexpected shape for input 'Q' for model 'm'. Expected [-1], got [-1]. ");
  request_.inputs[1].shape = {4};
  EXPECT_EQ(Check(),
            "[request id: 7] input byte size mismatch for input 'Q' for model 'm'. Expected 16, got 12");
  request_.inputs[1].name = "A";
  EXPECT_EQ(Check(), "[request id: 7] input 'A' already exists in request");
}

TEST_F(CheckRequestTest, RefusesDuplicates) {
  Add("A", {2});
  Add("A", {2});
  EXPECT_EQ(Check(), "[request id: 7] input 'A' already exists in request");
  request_.inputs[1].name = "B";
  request_.requested_outputs = {"X", "X"};
  EXPECT_EQ(Check(), "[request id: 7] output 'X' already exists in request");
}

TEST_F(CheckRequestTest, ComparesTypes) {
  Add("A", {2});
  Add("B", {2});
  info_.inputs[1].type = DataType::kBytes;
  EXPECT_EQ(Check(),
            "[request id: 7] inference input 'B' data-type is 'FP32', but model 'm' expects 'BYTES'");
}

TEST_F(CheckRequestTest, ComparesShapes) {
  Add("A", {3});
  Add("B", {2});
  EXPECT_EQ(Check(), "[request id: 7] unexpected shape for input 'A' for model 'm'. Expected [2], got [3]. ");
  request_.inputs[0].shape = {2, 1};
  EXPECT_EQ(Check(),
            "[request id: 7] unexpected shape for input 'A' for model 'm'. Expected [2], got [2,1]. ");
}

TEST_F(CheckRequestTest, RefusesNegativeAndOverflowingShapes) {
  constexpr int64_t kHuge = std::numeric_limits<int64_t>::max();
  info_.inputs = {Spec("A", DataType::kFp32, {-1, -1})};
  Add("A", {-1, 2});
  EXPECT_EQ(Check(),
            "[request id: 7] unexpected shape for input 'A' for model 'm'. Expected [-1,-1], got [-1,2]. ");
  request_.inputs[0].shape = {kHuge, kHuge};
  EXPECT_NE(Check().find("causes total element count to exceed maximum size of 9223372036854775807"),
            std::string::npos);
  request_.inputs[0].shape = {kHuge, 1};
  EXPECT_EQ(Check().find("[request id: 7] byte size overflow for input 'A'"), 0u);
  request_.inputs[0].shape = {kHuge, 0};
  EXPECT_EQ(Check(), "");
}

TEST_F(CheckRequestTest, ComparesByteSizes) {
  Add("A", {2});
  Add("B", {2});
  request_.inputs[1].data = Bytes(7);
  EXPECT_EQ(Check(),
            "[request id: 7] input byte size mismatch for input 'B' for model 'm'. Expected 8, got 7");
}

TEST_F(CheckRequestTest, NamesTheLastOfSeveralWrongInputs) {
  info_.inputs[1] = Spec("B", DataType::kFp32, {2});
  for (const bool turned : {false, true}) {
    request_.inputs.clear();
    Add("A", {3});
    Add("B", {3});
    if (turned) std::swap(request_.inputs[0], request_.inputs[1]);
    EXPECT_EQ(Check(),
              "[request id: 7] unexpected shape for input 'B' for model 'm'. Expected [2], got [3]. ");
  }
}

TEST_F(CheckRequestTest, TakesTheBatchSizeFromTheFirstDimension) {
  UseBatching(4);
  Add("A", {3, 2});
  Add("B", {3, 9});
  EXPECT_EQ(Check(), "");
  EXPECT_EQ(request_.batch_size, 3);
}

TEST_F(CheckRequestTest, ChecksTheBatchDimension) {
  UseBatching(4);
  Add("A", {});
  Add("B", {3, 9});
  EXPECT_EQ(Check(), "[request id: 7] input 'A' has no shape but model requires batch dimension for 'm'");
  request_.inputs[0].shape = {2, 2};
  EXPECT_EQ(Check(), "[request id: 7] input 'B' batch size does not match other inputs for 'm'");
  request_.inputs[0].shape = {5, 2};
  request_.inputs[1].shape = {5, 9};
  EXPECT_EQ(Check(), "[request id: 7] inference request batch-size must be <= 4 for 'm'");
  request_.inputs[0].shape = {-5, 2};
  request_.inputs[1].shape = {-5, 9};
  EXPECT_EQ(
      Check().find("[request id: 7] unexpected shape for input 'B' for model 'm'. Expected [-1,-1], got "
                   "[-5,9]. NOTE: "),
      0u);
}

TEST_F(CheckRequestTest, CountsStrings) {
  EXPECT_EQ(CheckStrings(Strings({"a", ""})), "");
  EXPECT_EQ(CheckStrings(Strings({"a"})),
            "[request id: 7] expected 2 string elements for inference input 'S' for model 'm', got 1");
  EXPECT_EQ(CheckStrings(Strings({"a", "b", "c", "d"})),
            "[request id: 7] unexpected number of string elements 3 for inference input 'S' for model 'm', "
            "expecting 2");
  EXPECT_EQ(CheckStrings(""),
            "[request id: 7] expected 2 string elements for inference input 'S' for model 'm', got 0");
}

TEST_F(CheckRequestTest, RefusesBrokenStrings) {
  EXPECT_EQ(CheckStrings(Strings({"a"}) + "\x01")
                .find("incomplete string length indicator for inference input 'S' for model "
                      "'m'"),
            0u);
  EXPECT_EQ(CheckStrings(Strings({"a"}) + std::string("\x09\0\0\0xyz", 7)),
            "incomplete string data for inference input 'S' for model 'm', expecting string of length 9 but "
            "only 3 bytes "
            "available");
  EXPECT_EQ(CheckStrings(std::string("\xff\xff\xff\xff", 4)),
            "incomplete string data for inference input 'S' for model 'm', expecting string of length "
            "4294967295 but only 0 "
            "bytes available");
}

TEST_F(CheckRequestTest, HandlesHundredsOfInputs) {
  info_.inputs.clear();
  for (int i = 0; i < 700; ++i) info_.inputs.push_back(Spec(Numbered("I", i), DataType::kFp32, {1}));
  for (int i = 699; i >= 0; --i) Add(Numbered("I", i), {1});
  EXPECT_EQ(Check(), "");
  request_.inputs[0].name = "I3";
  EXPECT_EQ(Check(), "[request id: 7] input 'I3' already exists in request");
}

}  // namespace
}  // namespace braid
