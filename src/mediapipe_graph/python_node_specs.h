// The Python nodes of a graph, as its configuration has them.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "backends/python/python_nodes.h"
#include "base/status.h"
#include "graph/topology.h"

namespace braid {

// One for each PythonExecutorCalculator, in the order of the configuration; none when the graph has none. A
// relative handler_path is relative to `base_path`, an absolute folder. Reads the disk. Errors: FaultError()
// kPythonNode*: of the first fault, with all faults, one a line.
Result<std::vector<PythonNodeSpec>> ListPythonNodes(const graph::Topology& topology,
                                                    const std::string& base_path);

// For PythonNodeResources::node_of_name.
std::map<std::string, size_t, std::less<>> NodeNumbers(const std::vector<PythonNodeSpec>& nodes);

}  // namespace braid
