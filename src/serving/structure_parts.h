// What structures of all kinds have in common: the nodes at both ends, names that differ, and counts.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "base/flow_counters.h"
#include "serving/structure.h"

namespace braid {

StructureNode RequestNode(std::string note = {});
StructureNode ResponseNode();

// Makes names of nodes different from each other and from those of the request and the response: those that
// are there more than once get a number, the first of them too.
void MakeNodeNamesUnique(std::vector<std::string>& names);

// Sets the counts of a node, which is counted under `number`.
void ReadCounts(const FlowCounters& counters, size_t number, StructureNode& node);

}  // namespace braid
