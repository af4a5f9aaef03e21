#include "mediapipe_graph/graph_boundary.h"

#include <gtest/gtest.h>

#include <limits>

#include "mediapipe_graph/graph_packets.h"

namespace braid {
namespace {

constexpr int64_t kMost = std::numeric_limits<int64_t>::max();

Tensor Make(DataType type, const Shape& shape, size_t bytes) {
  Tensor tensor;
  tensor.name = "in";
  tensor.type = type;
  tensor.shape = shape;
  tensor.data = CopyToHeap(std::vector<std::byte>(bytes));
  return tensor;
}

Tensor MakeBytes(const Shape& shape, std::string_view data) {
  Tensor tensor = Make(DataType::kBytes, shape, 0);
  tensor.data = CopyToHeap(std::as_bytes(std::span(data)));
  return tensor;
}

TEST(BoundaryStream, TagsAreToldByTheirPrefixes) {
  const auto kind = [](std::string_view text) { return InputStream(text).kind; };
  EXPECT_EQ(kind("in"), BoundaryKind::kOvTensor);
  EXPECT_EQ(kind("OVTENSOR:in"), BoundaryKind::kOvTensor);
  EXPECT_EQ(kind("WHATEVER:in"), BoundaryKind::kOvTensor);
  EXPECT_EQ(kind("OVMS_PY_TENSOR:in"), BoundaryKind::kPythonTensor);
  EXPECT_EQ(kind("OVMS_PY_TENSOR_IMAGE:in"), BoundaryKind::kPythonTensor);
  EXPECT_EQ(kind("TENSOR:in"), BoundaryKind::kMediaTensor);
  EXPECT_EQ(kind("TENSORS:in"), BoundaryKind::kMediaTensor);
  EXPECT_EQ(kind("TFTENSOR:in"), BoundaryKind::kTfTensor);
  EXPECT_EQ(kind("TFLITE_TENSOR:in"), BoundaryKind::kTfLiteTensor);
  EXPECT_EQ(kind("IMAGE:in"), BoundaryKind::kImageFrame);
  EXPECT_EQ(kind("REQUEST:in"), BoundaryKind::kMessage);
  EXPECT_EQ(kind("RESPONSE:in"), BoundaryKind::kOvTensor);
  EXPECT_EQ(OutputStream("RESPONSE:out").kind, BoundaryKind::kMessage);
  EXPECT_EQ(OutputStream("REQUEST:out").kind, BoundaryKind::kOvTensor);
}

TEST(BoundaryStream, TakesTagAndNameApart) {
  EXPECT_EQ(InputStream("OVTENSOR:1:in").tag, "OVTENSOR");
  EXPECT_EQ(InputStream("OVTENSOR:1:in").name, "in");
  EXPECT_EQ(InputStream("in").tag, "");
  EXPECT_EQ(InputStream("in").name, "in");
  EXPECT_EQ(OutputStream("A:out").name, "out");
}

TEST(CheckBoundaryTensor, SizesOfTensorsAreExact) {
  EXPECT_TRUE(CheckBoundaryTensor(BoundaryKind::kOvTensor, Make(DataType::kFp32, Shape{2, 3}, 24)).ok());
  EXPECT_TRUE(CheckBoundaryTensor(BoundaryKind::kOvTensor, Make(DataType::kFp32, Shape{}, 4)).ok());
  EXPECT_TRUE(CheckBoundaryTensor(BoundaryKind::kOvTensor, Make(DataType::kFp32, Shape{0, 3}, 0)).ok());
  const Status status = CheckBoundaryTensor(BoundaryKind::kOvTensor, Make(DataType::kFp32, Shape{1}, 0));
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(status.message(),
            "Invalid content size of tensor proto - Expected: 4 bytes; Actual: 0 bytes; input name: in");
}

TEST(CheckBoundaryTensor, NegativeDimensionsAreRefused) {
  for (const auto kind : {BoundaryKind::kOvTensor, BoundaryKind::kPythonTensor, BoundaryKind::kMessage}) {
    EXPECT_EQ(CheckBoundaryTensor(kind, Make(DataType::kFp32, Shape{-1, -4}, 16)).message(),
              "Invalid input shape - Negative dimension size is not acceptable: (-1,-4); input name: in");
  }
}

TEST(CheckBoundaryTensor, ShapesOutsideMemoryAreRefused) {
  for (const auto kind : {BoundaryKind::kOvTensor, BoundaryKind::kPythonTensor, BoundaryKind::kMessage}) {
    const Status status = CheckBoundaryTensor(kind, Make(DataType::kFp64, Shape{kMost, 8}, 8));
    EXPECT_TRUE(
        status.message().starts_with("Invalid content size of tensor proto - Provided shape and "
                                     "datatype declare too large buffer"))
        << status;
  }
}

TEST(CheckBoundaryTensor, PythonTensorsOfKnownTypesAreMeasured) {
  const auto check = [](DataType type, const Shape& shape, size_t bytes) {
    return CheckBoundaryTensor(BoundaryKind::kPythonTensor, Make(type, shape, bytes));
  };
  EXPECT_TRUE(check(DataType::kFp16, {3}, 6).ok());
  EXPECT_EQ(check(DataType::kInt64, {2}, 15).message(),
            "Invalid content size of tensor proto - Invalid Python tensor buffer size. Actual: 15; "
            "Expected: 16");
  // Any number of bytes fits a type of unknown size.
  EXPECT_TRUE(check(DataType::kBytes, {3}, 1).ok());
  EXPECT_TRUE(check(DataType::kBf16, {3}, 7).ok());
  EXPECT_TRUE(check(DataType::kCustom, {3}, 23).ok());
}

TEST(CheckBoundaryTensor, BytesHaveAsManyElementsAsTheShape) {
  using namespace std::string_view_literals;
  const auto check = [](const Shape& shape, std::string_view data) {
    return CheckBoundaryTensor(BoundaryKind::kOvTensor, MakeBytes(shape, data));
  };
  EXPECT_TRUE(check({2}, "\1\0\0\0a\0\0\0\0"sv).ok());
  EXPECT_EQ(check({3}, "\1\0\0\0a\0\0\0\0"sv).message(),
            "Invalid number of values in tensor proto container - Expected: 3 values; Actual: 2 values; "
            "input name: in");
  EXPECT_EQ(check({1}, "\5\0\0\0a"sv).message(),
            "Invalid string input - the buffer ends inside element 0; input name: in");
  EXPECT_EQ(check({1}, "\5\0"sv).message(),
            "Invalid string input - the buffer ends inside element 0; input name: in");
}

TEST(CheckBoundaryTensor, CustomTypesArePythonsAlone) {
  Tensor tensor = Make(DataType::kCustom, Shape{3}, 23);
  tensor.custom_type = "my_string";
  EXPECT_TRUE(CheckBoundaryTensor(BoundaryKind::kPythonTensor, tensor).ok());
  EXPECT_TRUE(CheckBoundaryTensor(BoundaryKind::kMessage, tensor).ok());
  const Status status = CheckBoundaryTensor(BoundaryKind::kOvTensor, tensor);
  EXPECT_TRUE(status.message().starts_with("Invalid input precision - Expected: BOOL, ")) << status;
  EXPECT_TRUE(status.message().ends_with("; Actual: my_string; input name: in")) << status;
}

TEST(CheckBoundaryTensor, MediaTensorsHaveFewTypes) {
  EXPECT_TRUE(CheckBoundaryTensor(BoundaryKind::kMediaTensor, Make(DataType::kBool, Shape{2}, 2)).ok());
  EXPECT_EQ(CheckBoundaryTensor(BoundaryKind::kMediaTensor, Make(DataType::kInt64, Shape{2}, 16)).message(),
            "Invalid input precision - Expected: FP32, FP16, INT32, INT8, UINT8, BOOL; Actual: INT64; input "
            "name: in");
  EXPECT_EQ(CheckBoundaryTensor(BoundaryKind::kTfTensor, Make(DataType::kInt64, Shape{2}, 16)).message(), "");
}

TEST(CheckBoundaryTensor, ImagesHaveHeightWidthAndChannels) {
  const auto check = [](DataType type, const Shape& shape, size_t bytes) {
    return CheckBoundaryTensor(BoundaryKind::kImageFrame, Make(type, shape, bytes)).message();
  };
  EXPECT_EQ(check(DataType::kUint8, {2, 3, 3}, 18), "");
  EXPECT_EQ(check(DataType::kFp32, {1, 1, 2}, 8), "");
  EXPECT_EQ(check(DataType::kUint8, {2, 3, 2}, 12),
            "Invalid number of channels in binary input - Expected: 1, 3 or 4; Actual: 2; input name: in");
  EXPECT_EQ(check(DataType::kFp32, {1, 1, 3}, 12),
            "Invalid number of channels in binary input - Expected: 1, 2 or 4; Actual: 3; input name: in");
  EXPECT_EQ(check(DataType::kUint8, {2, 3}, 6),
            "Invalid number of shape dimensions - Expected: (height,width,channels); Actual: (2,3); input "
            "name: in");
  EXPECT_EQ(check(DataType::kUint8, {0, 3, 3}, 0),
            "Invalid input shape - Expected: at least one pixel; Actual: (0,3,3); input name: in");
  EXPECT_EQ(check(DataType::kUint8, {2, 3, 3}, 17),
            "Invalid content size of tensor proto - Expected: 18 bytes; Actual: 17 bytes; input name: in");
  EXPECT_NE(check(DataType::kInt32, {2, 3, 3}, 72), "");
}

TEST(BoundaryPackets, TensorsGoInAndOutByTheirMemory) {
  const Tensor tensor = Make(DataType::kUint8, Shape{1, 2, 1}, 2);
  const auto* bytes = tensor.data.data();
  for (const std::string tag : {"OVTENSOR", "TENSOR", "TFTENSOR", "IMAGE", "OVMS_PY_TENSOR"}) {
    const BoundaryStream stream = OutputStream(std::string(tag).append(":out"));
    const graph::Packet packet = TensorToPacket(stream.kind, tensor, graph::Timestamp(7));
    EXPECT_EQ(graph::Timestamp(7), packet.timestamp());
    const auto out = PacketToTensor(stream, packet);
    ASSERT_TRUE(out.ok());
    EXPECT_EQ(out->data.data(), bytes) << tag;
    EXPECT_EQ(out->shape, tensor.shape);
    EXPECT_EQ(out->type, DataType::kUint8);
    // Python nodes name their tensors.
    EXPECT_EQ(out->name, tag == "OVMS_PY_TENSOR" ? "in" : "out");
  }
}

TEST(BoundaryPackets, TypesAreThoseOfTheKind) {
  EXPECT_EQ(InputPacketType(BoundaryKind::kMessage), graph::ValueType::Of<GraphRequest>());
  EXPECT_EQ(OutputPacketType(BoundaryKind::kMessage), graph::ValueType::Of<GraphResponse>());
  EXPECT_EQ(InputPacketType(BoundaryKind::kImageFrame), graph::ValueType::Of<ImageFrame>());
  EXPECT_EQ(OutputPacketType(BoundaryKind::kPythonTensor), graph::ValueType::Of<PythonTensor>());
}

TEST(BoundaryPackets, AnOutputWithoutBytesIsAnError) {
  NodeTensor value;
  value.tensor = Make(DataType::kUint8, Shape{2}, 0);
  value.has_bytes = false;
  const auto out =
      PacketToTensor(OutputStream("OVMS_PY_TENSOR:out"), graph::Packet::Of(PythonTensor{std::move(value)}));
  ASSERT_FALSE(out.ok());
  EXPECT_EQ(out.status().message(),
            "Internal server error - the node did not send the bytes of output 'out'");
}

}  // namespace
}  // namespace braid
