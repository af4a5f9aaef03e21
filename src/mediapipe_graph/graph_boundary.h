// The boundary of a served graph: the packets that a stream carries, by its tag, and the conversion between
// clients' tensors and packets. No bytes are copied.
//
// The checks here need only the tensor: its type, its shape, and a number of bytes that fits both. The reader
// of a message checks the encoding of the bytes (typed contents, raw contents, JSON).
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "graph/packet.h"
#include "tensor/tensor.h"

namespace braid {

// The packets of a stream at the boundary (see graph_packets.h).
enum class BoundaryKind : unsigned char {
  kOvTensor,  // OVTENSOR, no tag, an unknown tag
  kPythonTensor,
  kMediaTensor,
  kTfTensor,
  kImageFrame,
  kMessage,  // REQUEST at an input, RESPONSE at an output
  kPayload,  // HTTP_REQUEST_PAYLOAD at an input, HTTP_RESPONSE_PAYLOAD at an output: OpenAI's API
  kTfLiteTensor,
};

// A graph's input or output stream "name", "TAG:name" or "TAG:INDEX:name". It is parsed, but not checked.
struct BoundaryStream {
  std::string tag;
  std::string name;
  BoundaryKind kind = BoundaryKind::kOvTensor;
};
BoundaryStream InputStream(std::string_view text);
BoundaryStream OutputStream(std::string_view text);

// Returns the type of the stream's packets. REQUIRES: not kTfLiteTensor.
graph::ValueType InputPacketType(BoundaryKind kind);
graph::ValueType OutputPacketType(BoundaryKind kind);

// Checks whether a client's tensor can enter a stream of this kind; its dimensions may be negative. Errors,
// in the texts of FaultError: kInvalidShape, kInvalidPrecision, kInvalidContentSize, kInvalidValueCount,
// kInvalidStringInput, kInvalidNoOfShapeDimensions, kInvalidNoOfChannels.
Status CheckBoundaryTensor(BoundaryKind kind, const Tensor& tensor);

// Makes the packet for a client's tensor. REQUIRES: CheckBoundaryTensor() returned OK; not kMessage.
graph::Packet TensorToPacket(BoundaryKind kind, Tensor tensor, graph::Timestamp at);

// Returns the tensor in a packet of the output `stream`. It has the stream's name, unless a Python node has
// named it. Errors: kInternalError when the bytes are in another process. REQUIRES: the packet is of
// OutputPacketType(); not kMessage.
Result<Tensor> PacketToTensor(const BoundaryStream& stream, const graph::Packet& packet);

}  // namespace braid
