// The Python nodes in a graph's configuration.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "backends/python/python_nodes.h"
#include "base/status.h"
#include "graph/topology.h"

namespace braid {

// Returns a spec for each PythonExecutorCalculator, in the order of the configuration. A relative
// handler_path is relative to `base_path`, an absolute folder. Reads the disk. Errors: FaultError()
// kPythonNode*: the code of the first fault, and all faults, one per line.
Result<std::vector<PythonNodeSpec>> ListPythonNodes(const graph::Topology& topology,
                                                    const std::string& base_path);

// Makes PythonNodeResources::node_of_name.
std::map<std::string, size_t, std::less<>> NodeNumbers(const std::vector<PythonNodeSpec>& nodes);

}  // namespace braid
