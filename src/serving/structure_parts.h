// Parts common to all structures: the nodes at both ends, unique names, and counters.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "base/flow_counters.h"
#include "serving/structure.h"

namespace braid {

StructureNode RequestNode(std::string note = {});
StructureNode ResponseNode();

// Makes the names of nodes unique, also against those of the request and the response. All names that occur
// more than once get a number, including the first.
void MakeNodeNamesUnique(std::vector<std::string>& names);

// Sets the counters of a node that `counters` has under `number`.
void ReadCounts(const FlowCounters& counters, size_t number, StructureNode& node);

}  // namespace braid
