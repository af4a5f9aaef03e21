// What the parameters of a message to a graph mean, and how what went wrong in a graph is told to clients.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "base/status.h"
#include "graph/packet.h"
#include "mediapipe_graph/graph_definition.h"
#include "serving/request.h"

namespace braid {

// Of requests: the time of their packets. Of responses: that of the packets in them, an int64.
inline constexpr std::string_view kTimestampParameter = "OVMS_MP_TIMESTAMP";

// The time that a message gives its packets; nothing when it gives none. Errors: kGraphInvalidTimestamp when
// it is no int64, or not a time that packets of clients may have.
Result<std::optional<graph::Timestamp>> ManualTimestamp(const Parameters& parameters);
// Errors: kGraphInvalidTimestamp.
Status CheckTimestamp(graph::Timestamp timestamp);

// The side packets that the parameters of a graph's first message are: std::string, int64_t or bool, for
// those names that the graph declares. Errors: kGraphInitializationError for the reserved name "py", and for
// any parameter but the timestamp when the graph has a queue; kNotImplemented for other kinds of values.
// Those that name a sequence are right for graphs with `sequences`, where they need be no side packets.
using SidePackets = std::map<std::string, graph::Packet, std::less<>>;
Result<SidePackets> ClientSidePackets(const GraphDefinition& graph, const Parameters& parameters,
                                      bool sequences);

// The packet for input `name` of a client's message, after the checks of graph_boundary.h. `input` becomes
// the number of the stream. Errors: kInvalidUnexpectedInput, and those of CheckBoundaryTensor(). REQUIRES:
// the graph does not pass messages.
Result<graph::Packet> InputPacket(const GraphDefinition& graph, Tensor tensor, graph::Timestamp at,
                                  int& input);
// The packet for all of a message. REQUIRES: the graph passes messages. Errors: as CheckBoundaryTensor().
Result<graph::Packet> MessagePacket(InferenceRequest& message, graph::Timestamp at);

// A response with what `packet` carries, at output `output` of the graph, behind what is in it already.
// Errors: kGraphExecutionError when the packet is of another type than the stream's tag stands for, and those
// of PacketToTensor().
Status AddOutput(const GraphDefinition& graph, int output, const graph::Packet& packet,
                 InferenceResponse& response);

// kGraphExecutionError: "Mediapipe execution failed. MP status - INTERNAL: {message}", as a run's end is
// told.
Status RunFault(const Status& status);
// kGraphStartError in the same form for FAILED_PRECONDITION, else RunFault(): what Run::Start() has said.
Status StartFault(const Status& status);

}  // namespace braid
