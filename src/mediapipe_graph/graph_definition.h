// GraphDefinition: a parsed and checked graph.pbtxt of a server, from which no run has been started.
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
  // The streams at the graph's boundary, in the order of the configuration.
  std::vector<BoundaryStream> inputs;
  std::vector<BoundaryStream> outputs;
  // Maximum number of concurrent runs; 0: no limit.
  size_t queue_size = 0;

  // Returns the number of the input stream, or -1.
  int FindInput(std::string_view name) const;
  // Messages enter and leave the graph unchanged.
  bool passes_messages() const { return inputs[0].kind == BoundaryKind::kMessage; }
  // Requests of OpenAI's API enter the graph, and text of their replies leaves it.
  bool takes_payloads() const {
    return inputs.size() == 1 && inputs[0].kind == BoundaryKind::kPayload && outputs.size() == 1 &&
           outputs[0].kind == BoundaryKind::kPayload;
  }
};

struct GraphDefinitionOptions {
  std::shared_ptr<const graph::CalculatorRegistry> calculators;  // shared with the topology
  // Input side packets of runs in addition to those of clients.
  std::vector<std::string> provided_side_packets;
  // The meaning of AUTO in queue directives, and their maximum.
  size_t cores = 1;
  // Ignores queue directives.
  bool no_queue = false;
};

// Checks a graph in stages: the text, its queue directive, names of inputs and of outputs, types of streams,
// the graph itself, types at its boundary, the queue. Errors: FaultError() of the first stage with faults,
// with all its faults, one per line.
Result<GraphDefinition> DefineGraph(std::string name, std::string_view pbtxt,
                                    const GraphDefinitionOptions& options);

}  // namespace braid
