// What crosses the boundary of a served graph: which packets a stream takes, by its tag, and how tensors of
// clients become packets and packets become tensors. No bytes are copied.
//
// What is checked here needs no more than the tensor: its type, its shape, and that its bytes are as many as
// both say. How the bytes were sent (typed contents, raw contents, JSON) is checked by whoever reads the
// message.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "graph/packet.h"
#include "tensor/tensor.h"

namespace braid {

// What packets a stream at the boundary carries (see graph_packets.h).
enum class BoundaryKind : unsigned char {
  kOvTensor,  // OVTENSOR, no tag, an unknown tag
  kPythonTensor,
  kMediaTensor,
  kTfTensor,
  kImageFrame,
  kMessage,  // REQUEST at an input, RESPONSE at an output
  kTfLiteTensor,
};

// A graph's input or output stream "name", "TAG:name" or "TAG:INDEX:name"; only taken apart here, not
// checked.
struct BoundaryStream {
  std::string tag;
  std::string name;
  BoundaryKind kind = BoundaryKind::kOvTensor;
};
BoundaryStream InputStream(std::string_view text);
BoundaryStream OutputStream(std::string_view text);

// The type of the packets of such a stream. REQUIRES: not kTfLiteTensor.
graph::ValueType InputPacketType(BoundaryKind kind);
graph::ValueType OutputPacketType(BoundaryKind kind);

// Whether BYTES go into streams of this kind as they are on the wire, and any other text is a type too: such
// streams take tensors of DataType::kCustom.
constexpr bool TakesCustomTypes(BoundaryKind kind) {
  return kind == BoundaryKind::kPythonTensor || kind == BoundaryKind::kMessage;
}

// Whether a client's tensor can go into a stream of this kind; its dimensions may be negative. Errors, in the
// texts of FaultError: kInvalidShape, kInvalidPrecision, kInvalidContentSize, kInvalidValueCount,
// kInvalidStringInput, kInvalidNoOfShapeDimensions, kInvalidNoOfChannels.
Status CheckBoundaryTensor(BoundaryKind kind, const Tensor& tensor);

// The packet for a tensor of a client. REQUIRES: CheckBoundaryTensor() found nothing; not kMessage.
graph::Packet TensorToPacket(BoundaryKind kind, Tensor tensor, graph::Timestamp at);

// The tensor in a packet of the output `stream`: named as the stream, unless a Python node has named it.
// Errors: kInternalError when the bytes are not here. REQUIRES: the packet is of OutputPacketType(); not
// kMessage.
Result<Tensor> PacketToTensor(const BoundaryStream& stream, const graph::Packet& packet);

}  // namespace braid
