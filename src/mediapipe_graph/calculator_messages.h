// Packets as a server and the native worker of a library of calculators tell them each other (protos/isolated_calculators.proto).
#pragma once

#include <span>
#include <utility>
#include <vector>

#include "base/status.h"
#include "graph/packet.h"
#include "isolated_calculators.pb.h"
#include "mediapipe_graph/graph_packets.h"
#include "tensor/tensor.h"

namespace braid {

// A message as the first of the tensors that go with it.
Tensor MessageTensor(const google::protobuf::MessageLite& message);
// Reads it back; the bytes may be changed by the other side meanwhile. Errors: INVALID_ARGUMENT.
Status ReadMessageTensor(std::span<const Tensor> tensors, google::protobuf::MessageLite& message);

// Fills `message` with the packet's time and, if its value can be carried, with that; else with `other`. What the tensors of the packet
// have as bytes is added to `tensors`. Objects of libraries are the caller's to fill in.
void WritePacket(const graph::Packet& packet, CalculatorPacket& message, std::vector<Tensor>& tensors);

// The other way; the bytes are looked at. Errors: INVALID_ARGUMENT.
Result<Tensor> ReadTensor(const CalculatorTensor& message, std::span<const Tensor> tensors);
Result<GraphRequest> ReadRequest(const CalculatorRequest& message, std::span<const Tensor> tensors);
Result<GraphResponse> ReadResponse(const CalculatorRequest& message, std::span<const Tensor> tensors);

// The packet of a message that carries a value; make(value) makes it. Errors: INVALID_ARGUMENT, also for values that are not carried.
template <class Make>
Result<graph::Packet> ReadPacket(const CalculatorPacket& message, std::span<const Tensor> tensors,
                                 Make make) {
  switch (message.value_case()) {
    case CalculatorPacket::kFlag:
      return make(message.flag());
    case CalculatorPacket::kInteger:
      return make(static_cast<int64_t>(message.integer()));
    case CalculatorPacket::kText:
      return make(message.text());
    case CalculatorPacket::kTensor: {
      BRAID_ASSIGN_OR_RETURN(Tensor tensor, ReadTensor(message.tensor(), tensors));
      if (tensor.type == DataType::kCustom) return InvalidArgumentError("a tensor of no known type");
      return make(OvTensor{std::move(tensor)});
    }
    case CalculatorPacket::kPythonTensor: {
      BRAID_ASSIGN_OR_RETURN(Tensor tensor, ReadTensor(message.python_tensor(), tensors));
      return make(PythonTensor{NodeTensor{std::move(tensor), true, nullptr}});
    }
    case CalculatorPacket::kRequest: {
      BRAID_ASSIGN_OR_RETURN(GraphRequest request, ReadRequest(message.request(), tensors));
      return make(std::move(request));
    }
    case CalculatorPacket::kResponse: {
      BRAID_ASSIGN_OR_RETURN(GraphResponse response, ReadResponse(message.response(), tensors));
      return make(std::move(response));
    }
    default:
      return InvalidArgumentError("a packet without a value");
  }
}

}  // namespace braid
