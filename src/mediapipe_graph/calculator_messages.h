// Messages with packets, between a server and the native worker of a library of calculators
// (protos/isolated_calculators.proto).
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

// Returns a message as a tensor, which comes first among the tensors of a call.
Tensor MessageTensor(const google::protobuf::MessageLite& message);
// Reads such a message; the other side may change the bytes meanwhile. Errors: INVALID_ARGUMENT.
Status ReadMessageTensor(std::span<const Tensor> tensors, google::protobuf::MessageLite& message);

// Fills `message` with the packet's time and its value, or with `other` if messages cannot carry the value.
// Appends the bytes of the packet's tensors to `tensors`. The caller fills in objects of libraries.
void WritePacket(const graph::Packet& packet, CalculatorPacket& message, std::vector<Tensor>& tensors);

// Read values from a message and check the bytes. Errors: INVALID_ARGUMENT.
Result<Tensor> ReadTensor(const CalculatorTensor& message, std::span<const Tensor> tensors);
Result<GraphRequest> ReadRequest(const CalculatorRequest& message, std::span<const Tensor> tensors);
Result<GraphResponse> ReadResponse(const CalculatorRequest& message, std::span<const Tensor> tensors);

// Returns the packet of a message; make(value) makes it. Errors: INVALID_ARGUMENT, also for values that
// messages cannot carry.
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
      if (tensor.type == DataType::kCustom) return InvalidArgumentError("a tensor of unknown type");
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
