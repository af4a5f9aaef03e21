#include "serving/request_check_ovms.h"

#include <gtest/gtest.h>

#include "serving/faults.h"
#include "serving/request_check.h"

namespace braid {
namespace {

std::string Strings(const std::vector<std::string>& strings) {
  std::string wire;
  for (const std::string& s : strings) {
    const auto length = static_cast<uint32_t>(s.size());
    wire.append(reinterpret_cast<const char*>(&length), sizeof(length)).append(s);
  }
  return wire;
}

Buffer Text(std::string_view text) { return CopyToHeap(std::as_bytes(std::span(text.data(), text.size()))); }

class OvmsCheckTest : public ::testing::Test {
 protected:
  OvmsCheckTest() {
    info_.name = "dummy";
    info_.dialect = Dialect::kOvms;
    info_.inputs = {Spec("b", DataType::kFp32, {1, 10})};
    info_.outputs = {Spec("a", DataType::kFp32, {1, 10}), Spec("c", DataType::kFp32, {1, 10})};
  }
  static TensorSpec Spec(std::string name, DataType type, const Shape& shape) {
    TensorSpec spec;
    spec.name = std::move(name);
    spec.type = type;
    spec.shape = shape;
    return spec;
  }
  TensorSpec& spec() { return info_.inputs[0]; }
  // Adds an input with as many bytes as its shape implies.
  void Add(std::string name, Shape shape, DataType type = DataType::kFp32) {
    const size_t size = ByteSize(type, shape).value_or(0);
    request_.inputs.push_back(
        {std::move(name), type, std::move(shape), HeapAllocator().Allocate(size).value()});
  }
  // Returns the error for one input "b" of that shape.
  std::string CheckShape(Shape shape) {
    request_.inputs.clear();
    Add("b", std::move(shape));
    return Check();
  }
  // Returns the error text; "" for a good request.
  std::string Check() {
    const Status status = CheckRequest(info_, request_);
    EXPECT_TRUE(status.ok() || status.code() == StatusCode::kInvalidArgument);
    return status.message();
  }
  std::string CheckBytes(std::string_view wire, Shape shape) {
    info_.inputs = {Spec("s", DataType::kBytes, {-1})};
    request_.inputs.clear();
    request_.inputs.push_back({"s", DataType::kBytes, std::move(shape), Text(wire)});
    return Check();
  }

  ServableInfo info_;
  InferenceRequest request_;
};

TEST_F(OvmsCheckTest, TakesAGoodRequest) {
  Add("b", {1, 10});
  request_.requested_outputs = {"c"};
  EXPECT_EQ(Check(), "");
  EXPECT_EQ(request_.batch_size, 1);
}

TEST_F(OvmsCheckTest, CountsInputsFirst) {
  EXPECT_EQ(Check(), "Invalid number of inputs - Expected: 1; Actual: 0");
  Add("x", {-1}, DataType::kInt8);
  Add("b", {1, 10});
  EXPECT_EQ(Check(), "Invalid number of inputs - Expected: 1; Actual: 2");
  EXPECT_EQ(CheckRequest(info_, request_).fault(), Fault::kInvalidNoOfInputs);
}

TEST_F(OvmsCheckTest, NamesTheMissingInput) {
  Add("x", {1, 10});
  EXPECT_EQ(Check(), "Missing input with specific name - Required input: b");
}

TEST_F(OvmsCheckTest, RefusesNegativeDimensions) {
  EXPECT_EQ(
      CheckShape({1, -10}),
      "Invalid input shape - Negative or zero dimension size is not acceptable: (1,-10); input name: b");
}

TEST_F(OvmsCheckTest, ComparesPrecisions) {
  Add("b", {1, 9}, DataType::kInt32);
  EXPECT_EQ(Check(), "Invalid input precision - Expected: FP32; Actual: INT32; input name: b");
  request_.api = ApiCall{ApiProtocol::kTensorFlowServing, ApiInterface::kRest, ApiMethod::kPredict};
  EXPECT_EQ(Check(), "Invalid input precision - Expected: FP32; Actual: I32; input name: b");
}

TEST_F(OvmsCheckTest, SpellsPrecisionsAsTheProtocolDoes) {
  EXPECT_EQ(PrecisionName(DataType::kUint8, ApiProtocol::kTensorFlowServing), "U8");
  EXPECT_EQ(PrecisionName(DataType::kBytes, ApiProtocol::kTensorFlowServing), "STRING");
  EXPECT_EQ(PrecisionName(DataType::kFp16, ApiProtocol::kTensorFlowServing), "FP16");
  EXPECT_EQ(PrecisionName(DataType::kUint8, ApiProtocol::kKServe), "UINT8");
}

TEST_F(OvmsCheckTest, ComparesRanks) {
  EXPECT_EQ(CheckShape({1, 2, 5}),
            "Invalid number of shape dimensions - Expected: (1,10); Actual: (1,2,5); input name: b");
  EXPECT_EQ(CheckShape({}),
            "Invalid number of shape dimensions - Expected: (1,10); Actual: (); input name: b");
}

TEST_F(OvmsCheckTest, TellsTheBatchFromOtherDimensions) {
  EXPECT_EQ(CheckShape({2, 10}), "Invalid input batch size - Expected: 1; Actual: 2; input name: b");
  EXPECT_EQ(CheckShape({1, 9}), "Invalid input shape - Expected: (1,10); Actual: (1,9); input name: b");
  EXPECT_EQ(CheckShape({2, 9}), "Invalid input batch size - Expected: 1; Actual: 2; input name: b");
}

TEST_F(OvmsCheckTest, FindsTheBatchInTheLayout) {
  spec().layout = "CN";
  EXPECT_EQ(CheckShape({1, 9}), "Invalid input batch size - Expected: 10; Actual: 9; input name: b");
  EXPECT_EQ(CheckShape({2, 10}), "Invalid input shape - Expected: (1,10); Actual: (2,10); input name: b");
  spec().layout = "N...";
  EXPECT_EQ(CheckShape({2, 10}), "Invalid input batch size - Expected: 1; Actual: 2; input name: b");
  spec().layout = "...N";
  EXPECT_EQ(CheckShape({1, 9}), "Invalid input batch size - Expected: 10; Actual: 9; input name: b");
  for (const char* layout : {"...", "HW", "...NCHW"}) {
    spec().layout = layout;
    EXPECT_EQ(CheckShape({2, 10}), "Invalid input shape - Expected: (1,10); Actual: (2,10); input name: b");
  }
}

TEST_F(OvmsCheckTest, KeepsRanges) {
  spec().shape = {-1, -1, 3, -1};
  spec().ranges = {{1, 8}, {2, 4}, {3, 3}, {}};
  EXPECT_EQ(CheckShape({8, 2, 3, 100}), "");
  EXPECT_EQ(CheckShape({1, 4, 3, 0}), "");
  EXPECT_EQ(CheckShape({9, 2, 3, 1}), "Invalid input batch size - Expected: [1~8]; Actual: 9; input name: b");
  EXPECT_EQ(CheckShape({1, 5, 3, 1}),
            "Invalid input shape - Expected: ([1~8],[2~4],3,-1); Actual: (1,5,3,1); input name: b");
  EXPECT_EQ(
      CheckShape({1, 5}),
      "Invalid number of shape dimensions - Expected: ([1~8],[2~4],3,-1); Actual: (1,5); input name: b");
}

TEST_F(OvmsCheckTest, TakesAnySizeWithoutRanges) {
  spec().shape = {-1, -1};
  EXPECT_EQ(CheckShape({3, 0}), "");
  EXPECT_EQ(CheckShape({0, 7}), "");
}

TEST_F(OvmsCheckTest, ComparesBytes) {
  request_.inputs.push_back({"b", DataType::kFp32, {1, 10}, HeapAllocator().Allocate(36).value()});
  EXPECT_EQ(Check(),
            "Invalid content size of tensor proto - Expected: 40 bytes; Actual: 36 bytes; input name: b");
}

TEST_F(OvmsCheckTest, RefusesWhatNoMemoryHolds) {
  spec().shape = {-1, -1};
  request_.inputs.push_back({"b", DataType::kFp32, {int64_t{1} << 40, int64_t{1} << 40}, Buffer()});
  EXPECT_EQ(Check(),
            "Invalid content size of tensor proto - Provided shape and datatype declare too large buffer: "
            "(1099511627776,1099511627776); input name: b");
}

TEST_F(OvmsCheckTest, ComparesStrings) {
  EXPECT_EQ(CheckBytes(Strings({"a", "", "bcd"}), {3}), "");
  EXPECT_EQ(CheckBytes("", {0}), "");
  EXPECT_EQ(CheckBytes(Strings({"a", "b", "c"}), {2}),
            "Invalid number of values in tensor proto container - Expected: 2 values; Actual: 3 values; "
            "input name: s");
  EXPECT_EQ(
      CheckBytes(Strings({"abc"}).substr(0, 6), {1}),
      "Inputs inside buffer does not match expected format. - string element 0 is cut off; input name: s");
  EXPECT_EQ(
      CheckBytes(Strings({"abc"}) + "xy", {2}),
      "Inputs inside buffer does not match expected format. - string element 1 is cut off; input name: s");
}

TEST_F(OvmsCheckTest, LooksAtInputsInTheOrderOfTheModel) {
  info_.inputs = {Spec("a", DataType::kFp32, {1}), Spec("b", DataType::kFp32, {1})};
  Add("b", {2});
  request_.inputs.push_back({"a", DataType::kFp32, {1}, Buffer()});
  EXPECT_EQ(Check(),
            "Invalid content size of tensor proto - Expected: 4 bytes; Actual: 0 bytes; input name: a");
}

TEST_F(OvmsCheckTest, RefusesInputsTwice) {
  info_.inputs = {Spec("a", DataType::kFp32, {1}), Spec("b", DataType::kFp32, {1})};
  Add("a", {1});
  Add("a", {1});
  EXPECT_EQ(Check(), "Missing input with specific name - Required input: b");
  info_.inputs[1].optional = true;
  EXPECT_EQ(Check(), "Unexpected input - a is given more than once");
  request_.inputs[1].name = "x";
  EXPECT_EQ(Check(), "Unexpected input - x is unexpected");
}

TEST_F(OvmsCheckTest, TakesAnythingForAnInputThatNobodyUses) {
  info_.inputs = {Spec("b", DataType::kInvalid, {})};
  EXPECT_EQ(CheckShape({3, 4}), "");
}

TEST_F(OvmsCheckTest, KnowsRequestedOutputs) {
  Add("b", {1, 10});
  request_.requested_outputs = {"a", "x"};
  EXPECT_EQ(Check(), "requested output 'x' is not an output of 'dummy'");
  request_.requested_outputs = {"a", "a"};
  EXPECT_EQ(Check(), "output 'a' is requested more than once");
}

TEST_F(OvmsCheckTest, TensorsAloneMayBeEncodedImages) {
  info_.inputs = {Spec("b", DataType::kUint8, {1, 4, 4, 3})};
  request_.inputs.push_back({"b", DataType::kBytes, {1}, Buffer()});
  EXPECT_TRUE(CheckOvmsTensors(info_, request_).ok());
  EXPECT_EQ(Check(), "Invalid input precision - Expected: UINT8; Actual: BYTES; input name: b");
  request_.inputs[0] = {"b", DataType::kUint8, {1, 4, 4, 3}, Buffer()};
  EXPECT_TRUE(CheckOvmsTensors(info_, request_).ok());
  request_.inputs[0].shape = {1, 4, 4};
  EXPECT_EQ(CheckOvmsTensors(info_, request_).message(),
            "Invalid number of shape dimensions - Expected: (1,4,4,3); Actual: (1,4,4); input name: b");
}

}  // namespace
}  // namespace braid
