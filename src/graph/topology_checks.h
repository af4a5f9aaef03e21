// The steps in which a Topology is checked once its nodes and streams are known. Each fills its part of the
// tables and adds what is wrong to `faults`, a line each.
#pragma once

#include <string>
#include <vector>

#include "graph/topology_parts.h"

namespace braid::graph {

using Faults = std::vector<std::string>;

// "node 'name'".
std::string NodeText(const TopologyNode& node);
// "input stream 'TAG:0:name'", without what the port does not have.
std::string PortText(std::string_view kind, const Port& port);

// The types of streams and side packets: what one gives, all others must take.
void ResolveTypes(Topology::Parts& parts, Faults& faults);

// The order of nodes; no cycle may be left when inputs that are marked as back edges are taken away. One that
// is marked and closes none is no fault, as in MediaPipe.
void OrderNodes(Topology::Parts& parts, Faults& faults);

// Executors, and fields whose meaning is not supported.
void CheckSettings(const Topology::Parts& parts, Faults& faults);

}  // namespace braid::graph
