// GraphStructure: the structure of a graph (Servable::structure()), and what its runs have counted on its
// nodes and streams since it was loaded.
//
// A node is an execution for each call of its Process(), until its deferral is finished; one whose Open() or
// Close() fails counts as an execution that failed. Nodes without streams (sessions) are left out, as side
// packets are; what a session names stands at the nodes that ask it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/flow_counters.h"
#include "graph/topology.h"
#include "serving/structure.h"

namespace braid {

class GraphStructure {
 public:
  explicit GraphStructure(const graph::Topology& topology);

  ServableStructure Read() const;

  // What a run counts with (graph::Run::Options).
  const std::shared_ptr<FlowCounters>& counters() const { return counters_; }
  // A request, or a stream, from its beginning to its one end. Any thread, without locks.
  void RequestBegan() { counters_->Started(nodes_); }
  void RequestEnded(bool failed, int64_t ns) { counters_->Ended(nodes_, failed, ns); }
  void Responded() {
    counters_->Started(nodes_ + 1);
    counters_->Ended(nodes_ + 1, false, 0);
  }

 private:
  const size_t nodes_;  // of the topology; the request and the response are counted behind them
  const std::shared_ptr<FlowCounters> counters_;  // shared with the runs, which may outlive this
  ServableStructure plain_;                       // without counts
  std::vector<size_t> counted_;                   // by node of `plain_`, which counts are its own
};

}  // namespace braid
