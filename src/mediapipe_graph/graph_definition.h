// GraphDefinition: a graph.pbtxt as a server can serve it: parsed, checked, and not yet with anything
// started.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "graph/topology.h"
#include "mediapipe_graph/graph_boundary.h"

namespace braid {

struct GraphDefinition {
  std::string name;
  std::shared_ptr<const graph::Topology> topology;  // shared with the runs
  // At the graph's boundary, in the order of the configuration.
  std::vector<BoundaryStream> inputs;
  std::vector<BoundaryStream> outputs;
  // How many runs may be under way at once; 0: any number.
  size_t queue_size = 0;

  // The number of the input stream, or -1.
  int FindInput(std::string_view name) const;
  // Messages go in, and come out, as they are.
  bool passes_messages() const { return inputs[0].kind == BoundaryKind::kMessage; }
};

struct GraphDefinitionOptions {
  std::shared_ptr<const graph::CalculatorRegistry> calculators;  // shared with the topology
  // Input side packets that runs get beside those of clients.
  std::vector<std::string> provided_side_packets;
  // For queue directives.
  size_t cores = 1;
  // Queue directives count for nothing.
  bool no_queue = false;
};

// Checks stage after stage: the text, its queue directive, names of inputs and of outputs, types of streams,
// the graph itself, types at its boundary, the queue. Errors: FaultError(), of the first stage that has
// faults, with all its faults, one a line.
Result<GraphDefinition> DefineGraph(std::string name, std::string_view pbtxt,
                                    const GraphDefinitionOptions& options);

}  // namespace braid
