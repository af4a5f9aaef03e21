#include "mediapipe_graph/tensor_converter_calculator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "mediapipe_graph/testing/graph_fixture.h"

namespace braid {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class TensorConverterTest : public GraphFixture {
 protected:
  static std::string Node(const std::string& streams, const std::string& names = "") {
    std::string options;
    if (!names.empty()) {
      options =
          "node_options { [type.googleapis.com/mediapipe.PyTensorOvTensorConverterCalculatorOptions] { " +
          names + " } }";
    }
    return "node { name: 'convert' calculator: 'PyTensorOvTensorConverterCalculator' " + streams + options +
           " } ";
  }
  static std::string Name(const std::string& tag, const std::string& name) {
    return "tag_to_output_tensor_names { key: '" + tag + "' value: '" + name + "' } ";
  }
  static std::string ToPython() {
    return "input_stream: 'OVTENSOR:in' output_stream: 'OVMS_PY_TENSOR:out' " +
           Node("input_stream: 'OVTENSOR:in' output_stream: 'OVMS_PY_TENSOR:out'",
                Name("OVMS_PY_TENSOR", "out"));
  }
  static std::string ToOv() {
    return "input_stream: 'OVMS_PY_TENSOR:in' output_stream: 'OVTENSOR:out' " +
           Node("input_stream: 'OVMS_PY_TENSOR:in' output_stream: 'OVTENSOR:out'");
  }
  static std::string Failed(const std::string& text) {
    return "Mediapipe execution failed. MP status - INVALID_ARGUMENT: CalculatorGraph::Run() failed: "
           "\nCalculator::Process() for node \"convert\" failed: " +
           text;
  }
};

TEST_F(TensorConverterTest, BothWaysShareTheBytes) {
  for (const std::string& text : {ToPython(), ToOv()}) {
    const auto graph = Serve(text, "graph_" + std::to_string(served_.size()));
    for (const DataType type : {DataType::kBf16, DataType::kFp64, DataType::kFp32, DataType::kFp16,
                                DataType::kInt64, DataType::kInt8, DataType::kUint16, DataType::kBool}) {
      Tensor in = Int32Tensor("in", {1, 2});
      in.type = type;
      in.shape = {1, static_cast<int64_t>(8 / ElementSize(type))};
      const Shape shape = in.shape;
      const auto* bytes = in.data.data();
      const InferenceResponse response = Ask(graph, {std::move(in)});
      ASSERT_TRUE(response.status.ok()) << response.status;
      EXPECT_EQ(response.outputs[0].name, "out");
      EXPECT_EQ(response.outputs[0].type, type);
      EXPECT_EQ(response.outputs[0].shape, shape);
      EXPECT_EQ(response.outputs[0].data.data(), bytes);
    }
  }
}

TEST_F(TensorConverterTest, TypesThatTheOtherSideHasNot) {
  Tensor text = Int32Tensor("in", {0});
  text.type = DataType::kBytes;
  EXPECT_EQ(AskStatus(Serve(ToPython(), "python"), {text}).message(),
            Failed("Undefined precision in input tensor: BYTES"));
  const auto ov = Serve(ToOv());
  EXPECT_EQ(AskStatus(ov, {text}).message(), Failed("Undefined precision in input python tensor: BYTES"));
  text.type = DataType::kCustom;
  text.custom_type = "my_string";
  EXPECT_EQ(AskStatus(ov, {text}).message(), Failed("Undefined precision in input python tensor: my_string"));
  // The number of bytes of BFLOAT16 is checked here, not at the boundary.
  text.type = DataType::kBf16;
  text.shape = {3};
  EXPECT_EQ(AskStatus(ov, {text}).message(), Failed("python buffer size: 4; OV tensor size: 6; mismatch"));
}

TEST_F(TensorConverterTest, PairsBelongTogetherBySuffix) {
  const auto graph = Serve(
      "input_stream: 'OVTENSOR_A:a' input_stream: 'OVMS_PY_TENSOR_B:b' output_stream: 'OVMS_PY_TENSOR:x' "
      "output_stream: 'OVTENSOR:y' " +
      Node("input_stream: 'OVTENSOR_A:a' input_stream: 'OVMS_PY_TENSOR_B:b' output_stream: 'OVTENSOR_B:y' "
           "output_stream: 'OVMS_PY_TENSOR_A:x'",
           Name("OVMS_PY_TENSOR_A", "x")));
  const InferenceResponse response = Ask(graph, {Int32Tensor("a", {1}), Int32Tensor("b", {2})});
  ASSERT_TRUE(response.status.ok()) << response.status;
  EXPECT_THAT(Int32Values(response.outputs[0]), ElementsAre(1));
  EXPECT_THAT(Int32Values(response.outputs[1]), ElementsAre(2));
  // In a stream, one of the two may come alone.
  KeptStream kept;
  const auto stream = Open(graph, kept);
  EXPECT_TRUE(Push(*stream, {Int32Tensor("b", {3})}).ok());
  stream->CloseInputs();
  EXPECT_TRUE(kept.WaitEnd().ok());
  EXPECT_THAT(kept.Texts(), ElementsAre("y@0=3 "));
}

TEST_F(TensorConverterTest, OtherSuffixesBelongTogetherInOrder) {
  const auto graph = Serve(
      "input_stream: 'OVTENSOR1:a' input_stream: 'OVTENSOR2:b' output_stream: 'OVMS_PY_TENSOR1:x' "
      "output_stream: 'OVMS_PY_TENSOR2:y' " +
      Node("input_stream: 'OVTENSOR_P:a' input_stream: 'OVTENSOR_Q:b' output_stream: "
           "'OVMS_PY_TENSOR_X:x' output_stream: 'OVMS_PY_TENSOR_Y:y'",
           Name("OVMS_PY_TENSOR_X", "x") + Name("OVMS_PY_TENSOR_Y", "y")));
  const InferenceResponse response = Ask(graph, {Int32Tensor("a", {1}), Int32Tensor("b", {2})});
  ASSERT_TRUE(response.status.ok()) << response.status;
  EXPECT_EQ(response.outputs[0].name, "x");
  EXPECT_THAT(Int32Values(response.outputs[0]), ElementsAre(1));
  EXPECT_THAT(Int32Values(response.outputs[1]), ElementsAre(2));
}

TEST_F(TensorConverterTest, FaultsAreFoundWhenTheGraphIsLoaded) {
  const auto fault = [this](const std::string& node) {
    const Status status = Make("input_stream: 'in' output_stream: 'out' " + node).status();
    EXPECT_EQ(status.code(), StatusCode::kFailedPrecondition);
    return status.message();
  };
  const std::string to_python = "input_stream: 'OVTENSOR:in' output_stream: 'OVMS_PY_TENSOR:out'";
  EXPECT_THAT(fault(Node(to_python)), HasSubstr("has no key 'OVMS_PY_TENSOR'"));
  EXPECT_THAT(fault(Node(to_python, Name("OTHER", "out"))), HasSubstr("has no key 'OVMS_PY_TENSOR'"));
  EXPECT_THAT(fault(Node("input_stream: 'OVTENSOR:in' output_stream: 'OVTENSOR:out'")),
              HasSubstr("one of input 'in' and output 'out' must be OVTENSOR, the other OVMS_PY_TENSOR"));
  EXPECT_THAT(fault(Node("input_stream: 'OTHER:in' output_stream: 'OVMS_PY_TENSOR:out'")),
              HasSubstr("tags must begin with OVTENSOR or OVMS_PY_TENSOR"));
  EXPECT_THAT(fault(Node("input_stream: 'OVTENSOR:in'")), HasSubstr("found 1 and 0"));
}

}  // namespace
}  // namespace braid
