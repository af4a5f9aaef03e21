// The resources of Python nodes in a graph's run: the side packet "py", which PythonExecutorCalculators take
// at PYTHON_NODE_RESOURCES, and the service "python_session".
//
//   options.side_packets["py"] = graph::Packet::Of(PythonNodeResources{nodes, NodeNumbers(specs)});
//   options.services["python_session"] = graph::Packet::Of(nodes->BeginSession(parameters, chain));  // a
//   uint64_t
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "backends/python/python_nodes.h"

namespace braid {

inline constexpr std::string_view kPythonSidePacket = "py";
inline constexpr std::string_view kPythonResourcesTag = "PYTHON_NODE_RESOURCES";
// A uint64_t from PythonNodes::BeginSession(); a run without it has session 0.
inline constexpr std::string_view kPythonSessionService = "python_session";
inline constexpr std::string_view kPythonExecutorCalculator = "PythonExecutorCalculator";

// The value of the side packet; one packet for all runs of a graph.
struct PythonNodeResources {
  std::shared_ptr<PythonNodes> nodes;  // shared by the runs of the graph
  // Each node's number for PythonNodes::Execute(), by its name.
  std::map<std::string, size_t, std::less<>> node_of_name;
};

}  // namespace braid
