// The steps that check a Topology once its nodes and streams are known. Each step fills its part of the
// tables and adds its faults to `faults`, one per line.
#pragma once

#include <string>
#include <vector>

#include "graph/topology_parts.h"

namespace braid::graph {

using Faults = std::vector<std::string>;

// "node 'name'".
std::string NodeText(const TopologyNode& node);
// Returns "input stream 'TAG:0:name'", without the parts that the port lacks.
std::string PortText(std::string_view kind, const Port& port);

// Resolves the types of streams and side packets. All consumers must accept the producer's type.
void ResolveTypes(Topology::Parts& parts, Faults& faults);

// Orders the nodes. Without the inputs marked as back edges, there must be no cycle. A marked input that
// closes no cycle is allowed, as in MediaPipe.
void OrderNodes(Topology::Parts& parts, Faults& faults);

// Checks executors, and fields whose meaning is not supported.
void CheckSettings(const Topology::Parts& parts, Faults& faults);

}  // namespace braid::graph
