#include "mediapipe_graph/graph_message.h"

#include <algorithm>
#include <utility>

#include "base/utf8.h"
#include "mediapipe_graph/graph_packets.h"
#include "mediapipe_graph/graph_sequences.h"
#include "mediapipe_graph/python_node_resources.h"
#include "serving/faults.h"

namespace braid {
namespace {

std::string_view MediaPipeName(StatusCode code) {
  switch (code) {
    case StatusCode::kOk:
      return "OK";
    case StatusCode::kUnknown:
      return "UNKNOWN";
    case StatusCode::kInternal:
      return "INTERNAL";
    case StatusCode::kNotFound:
      return "NOT_FOUND";
    case StatusCode::kInvalidArgument:
      return "INVALID_ARGUMENT";
    case StatusCode::kUnavailable:
      return "UNAVAILABLE";
    case StatusCode::kUnsupported:
      return "UNIMPLEMENTED";
    case StatusCode::kAlreadyExists:
      return "ALREADY_EXISTS";
    case StatusCode::kCancelled:
      return "CANCELLED";
    case StatusCode::kFailedPrecondition:
      return "FAILED_PRECONDITION";
    case StatusCode::kAborted:
      return "ABORTED";
    case StatusCode::kResourceExhausted:
      return "RESOURCE_EXHAUSTED";
    case StatusCode::kUnauthenticated:
      return "UNAUTHENTICATED";
    case StatusCode::kPermissionDenied:
      return "PERMISSION_DENIED";
  }
  return "UNKNOWN";
}

std::string MediaPipeText(const Status& status) {
  return std::string(MediaPipeName(status.code())).append(": ").append(status.message());
}

Result<graph::Packet> SidePacket(const std::string& name, const ParameterValue& value) {
  if (const auto* text = std::get_if<std::string>(&value)) return graph::Packet::Of(*text);
  if (const auto* number = std::get_if<int64_t>(&value)) return graph::Packet::Of(*number);
  if (const auto* flag = std::get_if<bool>(&value)) return graph::Packet::Of(*flag);
  return FaultError(
      Fault::kNotImplemented,
      std::string("parameter '").append(name).append("': input side packets must be string, int64 or bool"));
}

// Nodes with ports of any type may output a packet whose type does not fit the stream's tag.
Status CheckOutputType(const BoundaryStream& stream, const graph::Packet& packet) {
  const graph::ValueType expected = OutputPacketType(stream.kind);
  if (packet.type() == expected) return OkStatus();
  return RunFault(InternalError(std::string("output_stream '")
                                    .append(stream.name)
                                    .append("' with the tag '")
                                    .append(stream.tag)
                                    .append("' carries ")
                                    .append(expected.name())
                                    .append("; its packet has ")
                                    .append(packet.type().name())));
}

}  // namespace

Status CheckTimestamp(graph::Timestamp timestamp) {
  if (timestamp.IsRangeValue()) return OkStatus();
  return FaultError(Fault::kGraphInvalidTimestamp, timestamp.DebugString());
}

Result<std::optional<graph::Timestamp>> ManualTimestamp(const Parameters& parameters) {
  const auto at = std::find_if(parameters.begin(), parameters.end(),
                               [](const auto& one) { return one.first == kTimestampParameter; });
  if (at == parameters.end()) return std::optional<graph::Timestamp>();
  const auto* value = std::get_if<int64_t>(&at->second);
  if (value == nullptr) {
    return FaultError(Fault::kGraphInvalidTimestamp,
                      "Invalid timestamp format in request parameter OVMS_MP_TIMESTAMP. Should be int64");
  }
  const graph::Timestamp timestamp(*value);
  BRAID_RETURN_IF_ERROR(CheckTimestamp(timestamp));
  return std::optional(timestamp);
}

Result<SidePackets> ClientSidePackets(const GraphDefinition& graph, const Parameters& parameters,
                                      bool sequences) {
  SidePackets packets;
  const auto& declared = graph.topology->input_side_packets();
  for (const auto& [name, value] : parameters) {
    if (name == kTimestampParameter) continue;
    const bool wanted = std::any_of(declared.begin(), declared.end(),
                                    [&name = name](const graph::Port& port) { return port.name == name; });
    if (sequences && !wanted && IsSequenceParameter(name)) continue;
    if (graph.queue_size > 0) {
      return FaultError(Fault::kGraphInitializationError,
                        "Input side packets are not supported for graphs with queue enabled");
    }
    if (name == kPythonSidePacket) {
      return FaultError(Fault::kGraphInitializationError,
                        "Incoming input side packet: py is special reserved name and cannot be used");
    }
    BRAID_ASSIGN_OR_RETURN(graph::Packet packet, SidePacket(name, value));
    if (wanted) packets.insert_or_assign(name, std::move(packet));
  }
  return packets;
}

Result<graph::Packet> InputPacket(const GraphDefinition& graph, Tensor tensor, graph::Timestamp at,
                                  int& input) {
  input = graph.FindInput(tensor.name);
  if (input < 0) {
    return FaultError(Fault::kInvalidUnexpectedInput, Shortened(tensor.name).append(" is unexpected"));
  }
  const BoundaryKind kind = graph.inputs[static_cast<size_t>(input)].kind;
  BRAID_RETURN_IF_ERROR(CheckBoundaryTensor(kind, tensor));
  return TensorToPacket(kind, std::move(tensor), at);
}

Result<graph::Packet> MessagePacket(InferenceRequest& message, graph::Timestamp at) {
  for (const Tensor& tensor : message.inputs) {
    BRAID_RETURN_IF_ERROR(CheckBoundaryTensor(BoundaryKind::kMessage, tensor));
  }
  return graph::Packet::Of(GraphRequest{message.id, message.parameters, std::move(message.inputs)}, at);
}

Status AddOutput(const GraphDefinition& graph, int output, const graph::Packet& packet,
                 InferenceResponse& response) {
  const BoundaryStream& stream = graph.outputs[static_cast<size_t>(output)];
  BRAID_RETURN_IF_ERROR(CheckOutputType(stream, packet));
  if (stream.kind != BoundaryKind::kMessage) {
    BRAID_ASSIGN_OR_RETURN(Tensor tensor, PacketToTensor(stream, packet));
    response.outputs.push_back(std::move(tensor));
    return OkStatus();
  }
  const auto& message = packet.Get<GraphResponse>();
  response.outputs.insert(response.outputs.end(), message.outputs.begin(), message.outputs.end());
  for (const auto& parameter : message.parameters) {
    if (parameter.first != kTimestampParameter) response.parameters.push_back(parameter);
  }
  return OkStatus();
}

Status RunFault(const Status& status) {
  return FaultError(Fault::kGraphExecutionError, MediaPipeText(status));
}

Status StartFault(const Status& status) {
  if (status.code() != StatusCode::kFailedPrecondition) return RunFault(status);
  return FaultError(Fault::kGraphStartError, MediaPipeText(status));
}

}  // namespace braid
