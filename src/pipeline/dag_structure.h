// DagStructure: the structure of an ensemble or a pipeline (Servable::structure()), and what its sessions
// have counted on its nodes and edges since it was loaded. A part of the DagPlan.
//
// Node 0 is the request, then come the DAG's nodes in their order, then the response. There is an edge for
// each input of each node, and one for each output of the DAG.
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
  // How the definition describes the nodes of the DAG, by node. Names that are there twice get numbers.
  struct Words {
    std::vector<StructureNode> nodes;
    std::string request_note;
    // By edge, how it calls the tensors; none: as the nodes do that make them.
    std::vector<std::string> aliases;
  };
  DagStructure(const Dag& dag, Words words);

  ServableStructure Read() const;

  // What follows takes no lock. A request that has begun ends once, and so does a node that has started.
  void RequestBegan() { counters_.Started(0); }
  void RequestEnded(bool failed, int64_t ns) { counters_.Ended(0, failed, ns); }
  // With the tensors that it takes, under the names of the DAG's ports and in their order.
  void NodeStarted(const Dag& dag, uint32_t node, const std::vector<Tensor>& inputs);
  void NodeEnded(uint32_t node, bool failed, int64_t ns) { counters_.Ended(node + 1, failed, ns); }
  // With these outputs of the DAG.
  void Responded(const std::vector<uint32_t>& outputs, const std::vector<Tensor>& tensors);

 private:
  // A tensor that was gathered is as many as it was made of.
  uint64_t PiecesOf(size_t edge, const Tensor& tensor) const;

  ServableStructure plain_;            // without counts
  std::vector<uint32_t> first_edges_;  // by node; then that of the outputs
  std::vector<uint32_t> gathered_;     // by edge: how many dimensions in front count pieces
  FlowCounters counters_;
};

}  // namespace braid
