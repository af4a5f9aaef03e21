// DagStructure: the structure of an ensemble or a pipeline (Servable::structure()), with the counts of its
// nodes and edges since it was loaded. A part of the DagPlan.
//
// Node 0 is the request, followed by the DAG's nodes in order and by the response. There is an edge for each
// input of each node, and one for each output of the DAG.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/flow_counters.h"
#include "pipeline/dag.h"
#include "serving/structure.h"
#include "tensor/tensor.h"

namespace braid {

class DagStructure {
 public:
  // The definition's descriptions of the DAG's nodes, by node. Duplicate names get numbers.
  struct Words {
    std::vector<StructureNode> nodes;
    std::string request_note;
    // The definition's names for tensors, by edge; empty to use the names of the nodes that make them.
    std::vector<std::string> aliases;
  };
  DagStructure(const Dag& dag, Words words);

  ServableStructure Read() const;

  // The functions below take no lock. A request that has begun ends once, and so does a node that has
  // started.
  void RequestBegan() { counters_.Started(0); }
  void RequestEnded(bool failed, int64_t ns) { counters_.Ended(0, failed, ns); }
  // `inputs` are the tensors that the node takes, under the names of the DAG's ports and in their order.
  void NodeStarted(const Dag& dag, uint32_t node, const std::vector<Tensor>& inputs);
  void NodeEnded(uint32_t node, bool failed, int64_t ns) { counters_.Ended(node + 1, failed, ns); }
  // Counts a response with these outputs of the DAG.
  void Responded(const std::vector<uint32_t>& outputs, const std::vector<Tensor>& tensors);

 private:
  // Returns the number of tensors that a gathered tensor was made of; 1 for other tensors.
  uint64_t PiecesOf(size_t edge, const Tensor& tensor) const;

  ServableStructure plain_;            // without counts
  std::vector<uint32_t> first_edges_;  // by node; then the first edge of the outputs
  std::vector<uint32_t> gathered_;     // by edge: number of leading dimensions that count pieces
  FlowCounters counters_;
};

}  // namespace braid
