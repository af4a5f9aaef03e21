// Parameters of messages to graphs, and the errors of graphs in the form that clients get.
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

// Of requests: the time of their packets. Of responses: the time of the packet in them, an int64.
inline constexpr std::string_view kTimestampParameter = "OVMS_MP_TIMESTAMP";

// Returns the time that a message gives its packets; nothing if it gives none. Errors: kGraphInvalidTimestamp
// when it is not an int64, or not a time that clients' packets may have.
Result<std::optional<graph::Timestamp>> ManualTimestamp(const Parameters& parameters);
// Errors: kGraphInvalidTimestamp.
Status CheckTimestamp(graph::Timestamp timestamp);

// Returns the side packets in the parameters of a graph's first message: std::string, int64_t or bool, for
// names that the graph declares. Errors: kGraphInitializationError for the reserved name "py", and for any
// parameter but the timestamp if the graph has a queue; kNotImplemented for other types of values. With
// `sequences`, parameters that name a sequence are allowed without a declaration.
using SidePackets = std::map<std::string, graph::Packet, std::less<>>;
Result<SidePackets> ClientSidePackets(const GraphDefinition& graph, const Parameters& parameters,
                                      bool sequences);

// Makes the packet for the input `name` of a client's message, after the checks of graph_boundary.h. `input`
// is set to the number of the stream. Errors: kInvalidUnexpectedInput, and those of CheckBoundaryTensor().
// REQUIRES: the graph does not pass messages.
Result<graph::Packet> InputPacket(const GraphDefinition& graph, Tensor tensor, graph::Timestamp at,
                                  int& input);
// Makes the packet for a whole message. REQUIRES: the graph passes messages. Errors: as
// CheckBoundaryTensor().
Result<graph::Packet> MessagePacket(InferenceRequest& message, graph::Timestamp at);

// Appends the contents of `packet`, from output `output` of the graph, to `response`. Errors:
// kGraphExecutionError when the packet's type does not fit the stream's tag, and those of PacketToTensor().
Status AddOutput(const GraphDefinition& graph, int output, const graph::Packet& packet,
                 InferenceResponse& response);

// Returns the error of a run's end as clients get it: kGraphExecutionError, "Mediapipe execution failed. MP
// status - INTERNAL: {message}".
Status RunFault(const Status& status);
// Returns the error of Run::Start(): kGraphStartError in the same form for FAILED_PRECONDITION, else
// RunFault().
Status StartFault(const Status& status);

}  // namespace braid
