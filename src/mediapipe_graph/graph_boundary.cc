#include "mediapipe_graph/graph_boundary.h"

#include <algorithm>
#include <array>
#include <span>
#include <utility>

#include "base/check.h"
#include "mediapipe_graph/graph_packets.h"
#include "serving/faults.h"
#include "serving/openai_convention.h"
#include "tensor/bytes_elements.h"

namespace braid {
namespace {

BoundaryStream TakeApart(std::string_view text) {
  BoundaryStream stream;
  const size_t last = text.rfind(':');
  stream.name = text.substr(last == std::string_view::npos ? 0 : last + 1);
  if (last != std::string_view::npos) stream.tag = text.substr(0, text.find(':'));
  return stream;
}

// A tag's beginning decides, so OVMS_PY_TENSOR_IMAGE carries Python tensors.
BoundaryKind KindOf(const std::string& tag, std::string_view message_tag, std::string_view payload_tag) {
  const std::pair<std::string_view, BoundaryKind> kinds[] = {
      {"OVMS_PY_TENSOR", BoundaryKind::kPythonTensor}, {"OVTENSOR", BoundaryKind::kOvTensor},
      {"TFLITE_TENSOR", BoundaryKind::kTfLiteTensor},  {"TFTENSOR", BoundaryKind::kTfTensor},
      {"TENSOR", BoundaryKind::kMediaTensor},          {"IMAGE", BoundaryKind::kImageFrame},
      {payload_tag, BoundaryKind::kPayload},           {message_tag, BoundaryKind::kMessage},
  };
  for (const auto& [prefix, kind] : kinds) {
    if (tag.starts_with(prefix)) return kind;
  }
  return BoundaryKind::kOvTensor;
}

template <class MessageType>
graph::ValueType PacketType(BoundaryKind kind) {
  switch (kind) {
    case BoundaryKind::kOvTensor:
      return graph::ValueType::Of<OvTensor>();
    case BoundaryKind::kPythonTensor:
    case BoundaryKind::kPayload:
      return graph::ValueType::Of<PythonTensor>();
    case BoundaryKind::kMediaTensor:
      return graph::ValueType::Of<MediaTensor>();
    case BoundaryKind::kTfTensor:
      return graph::ValueType::Of<TfTensor>();
    case BoundaryKind::kImageFrame:
      return graph::ValueType::Of<ImageFrame>();
    case BoundaryKind::kMessage:
      return graph::ValueType::Of<MessageType>();
    case BoundaryKind::kTfLiteTensor:
      break;
  }
  BRAID_CHECK(false);
}

// "(1,3,-1)".
std::string ShapeText(const Shape& shape) {
  std::string text = "(";
  for (size_t i = 0; i < shape.size(); ++i) text.append(i == 0 ? "" : ",").append(std::to_string(shape[i]));
  return text.append(")");
}

std::string OfInput(std::string text, const Tensor& tensor) {
  return text.append("; input name: ").append(tensor.name);
}

// Python's buffers have items of these types. Python has no BFLOAT16, so its bytes are only bytes.
bool HasPythonItems(DataType type) { return ElementSize(type) > 0 && type != DataType::kBf16; }

Status CheckPythonTensor(const Tensor& tensor) {
  if (!HasPythonItems(tensor.type)) return OkStatus();
  const auto expected = ByteSize(tensor.type, tensor.shape);
  if (!expected) {
    return FaultError(Fault::kInvalidContentSize, "Provided shape and datatype declare too large buffer.");
  }
  if (*expected == tensor.data.size()) return OkStatus();
  return FaultError(Fault::kInvalidContentSize,
                    "Invalid Python tensor buffer size. Actual: " + std::to_string(tensor.data.size()) +
                        "; Expected: " + std::to_string(*expected));
}

Status CheckElements(const Tensor& tensor) {
  BytesElements elements(tensor.data.text());
  int64_t count = 0;
  while (elements.Next()) ++count;
  if (elements.truncated()) {
    return FaultError(Fault::kInvalidStringInput,
                      OfInput("the buffer ends inside element " + std::to_string(count), tensor));
  }
  const auto expected = ElementCount(tensor.shape);
  if (expected == count) return OkStatus();
  return FaultError(Fault::kInvalidValueCount,
                    OfInput("Expected: " + (expected ? std::to_string(*expected) : ShapeText(tensor.shape)) +
                                " values; Actual: " + std::to_string(count) + " values",
                            tensor));
}

Status CheckBytes(const Tensor& tensor) {
  if (tensor.type == DataType::kBytes) return CheckElements(tensor);
  const auto expected = ByteSize(tensor.type, tensor.shape);
  if (!expected) {
    return FaultError(Fault::kInvalidContentSize,
                      OfInput("Provided shape and datatype declare too large buffer", tensor));
  }
  if (*expected == tensor.data.size()) return OkStatus();
  return FaultError(Fault::kInvalidContentSize,
                    OfInput("Expected: " + std::to_string(*expected) +
                                " bytes; Actual: " + std::to_string(tensor.data.size()) + " bytes",
                            tensor));
}

Status CheckType(const Tensor& tensor, std::span<const DataType> types) {
  if (std::find(types.begin(), types.end(), tensor.type) != types.end()) return OkStatus();
  std::string expected;
  for (const DataType type : types) expected.append(expected.empty() ? "" : ", ").append(WireName(type));
  return FaultError(
      Fault::kInvalidPrecision,
      OfInput(std::string("Expected: ").append(expected).append("; Actual: ").append(TypeName(tensor)),
              tensor));
}

constexpr std::array kTensorTypes = {
    DataType::kBool, DataType::kUint8, DataType::kUint16, DataType::kUint32, DataType::kUint64,
    DataType::kInt8, DataType::kInt16, DataType::kInt32,  DataType::kInt64,  DataType::kFp16,
    DataType::kBf16, DataType::kFp32,  DataType::kFp64,   DataType::kBytes,
};
constexpr std::array kMediaTypes = {DataType::kFp32, DataType::kFp16,  DataType::kInt32,
                                    DataType::kInt8, DataType::kUint8, DataType::kBool};
constexpr std::array kImageTypes = {DataType::kFp32,   DataType::kFp16, DataType::kUint8,
                                    DataType::kUint16, DataType::kInt8, DataType::kInt16};

Status CheckImage(const Tensor& tensor) {
  BRAID_RETURN_IF_ERROR(CheckType(tensor, kImageTypes));
  if (tensor.shape.size() != 3) {
    return FaultError(
        Fault::kInvalidNoOfShapeDimensions,
        OfInput("Expected: (height,width,channels); Actual: " + ShapeText(tensor.shape), tensor));
  }
  if (tensor.shape[0] == 0 || tensor.shape[1] == 0) {
    return FaultError(Fault::kInvalidShape,
                      OfInput("Expected: at least one pixel; Actual: " + ShapeText(tensor.shape), tensor));
  }
  const int64_t channels = tensor.shape[2];
  const bool pairs = tensor.type == DataType::kFp32;
  if (channels == 1 || channels == 4 || channels == (pairs ? 2 : 3)) return OkStatus();
  return FaultError(Fault::kInvalidNoOfChannels, OfInput(std::string("Expected: ")
                                                             .append(pairs ? "1, 2 or 4" : "1, 3 or 4")
                                                             .append("; Actual: ")
                                                             .append(std::to_string(channels)),
                                                         tensor));
}

}  // namespace

BoundaryStream InputStream(std::string_view text) {
  BoundaryStream stream = TakeApart(text);
  stream.kind = KindOf(stream.tag, "REQUEST", kRequestPayloadTag);
  return stream;
}

BoundaryStream OutputStream(std::string_view text) {
  BoundaryStream stream = TakeApart(text);
  stream.kind = KindOf(stream.tag, "RESPONSE", kResponsePayloadTag);
  return stream;
}

graph::ValueType InputPacketType(BoundaryKind kind) { return PacketType<GraphRequest>(kind); }
graph::ValueType OutputPacketType(BoundaryKind kind) { return PacketType<GraphResponse>(kind); }

Status CheckBoundaryTensor(BoundaryKind kind, const Tensor& tensor) {
  if (std::any_of(tensor.shape.begin(), tensor.shape.end(), [](int64_t size) { return size < 0; })) {
    return FaultError(
        Fault::kInvalidShape,
        OfInput("Negative dimension size is not acceptable: " + ShapeText(tensor.shape), tensor));
  }
  switch (kind) {
    case BoundaryKind::kPythonTensor:
      return CheckPythonTensor(tensor);
    case BoundaryKind::kPayload:
      if (TypeName(tensor) == kRequestPayloadTag) return OkStatus();
      return FaultError(
          Fault::kInvalidPrecision,
          OfInput("Expected: a request of OpenAI's API; Actual: " + std::string(TypeName(tensor)), tensor));
    case BoundaryKind::kMessage:
      return ElementSize(tensor.type) > 0 ? CheckBytes(tensor) : OkStatus();
    case BoundaryKind::kMediaTensor:
      BRAID_RETURN_IF_ERROR(CheckType(tensor, kMediaTypes));
      break;
    case BoundaryKind::kImageFrame:
      BRAID_RETURN_IF_ERROR(CheckImage(tensor));
      break;
    case BoundaryKind::kOvTensor:
    case BoundaryKind::kTfTensor:
    case BoundaryKind::kTfLiteTensor:
      BRAID_RETURN_IF_ERROR(CheckType(tensor, kTensorTypes));
      break;
  }
  return CheckBytes(tensor);
}

graph::Packet TensorToPacket(BoundaryKind kind, Tensor tensor, graph::Timestamp at) {
  switch (kind) {
    case BoundaryKind::kOvTensor:
      return graph::Packet::Of(OvTensor{std::move(tensor)}, at);
    case BoundaryKind::kPythonTensor:
    case BoundaryKind::kPayload:
      return graph::Packet::Of(PythonTensor{NodeTensor{std::move(tensor), true, nullptr}}, at);
    case BoundaryKind::kMediaTensor:
      return graph::Packet::Of(MediaTensor{std::move(tensor)}, at);
    case BoundaryKind::kTfTensor:
      return graph::Packet::Of(TfTensor{std::move(tensor)}, at);
    case BoundaryKind::kImageFrame:
      return graph::Packet::Of(ImageFrame{std::move(tensor)}, at);
    case BoundaryKind::kMessage:
    case BoundaryKind::kTfLiteTensor:
      break;
  }
  BRAID_CHECK(false);
}

Result<Tensor> PacketToTensor(const BoundaryStream& stream, const graph::Packet& packet) {
  Tensor tensor;
  switch (stream.kind) {
    case BoundaryKind::kPythonTensor:
    case BoundaryKind::kPayload: {
      const NodeTensor& value = packet.Get<PythonTensor>().value;
      if (!value.has_bytes) {
        return FaultError(
            Fault::kInternalError,
            std::string("the node did not send the bytes of output '").append(stream.name).append("'"));
      }
      return value.tensor;
    }
    case BoundaryKind::kOvTensor:
      tensor = packet.Get<OvTensor>().tensor;
      break;
    case BoundaryKind::kMediaTensor:
      tensor = packet.Get<MediaTensor>().tensor;
      break;
    case BoundaryKind::kTfTensor:
      tensor = packet.Get<TfTensor>().tensor;
      break;
    case BoundaryKind::kImageFrame:
      tensor = packet.Get<ImageFrame>().tensor;
      break;
    case BoundaryKind::kMessage:
    case BoundaryKind::kTfLiteTensor:
      BRAID_CHECK(false);
  }
  tensor.name = stream.name;
  return tensor;
}

}  // namespace braid
