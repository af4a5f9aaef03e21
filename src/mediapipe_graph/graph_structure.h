// GraphStructure: the structure of a graph (Servable::structure()), with the counts of its nodes and streams
// since it was loaded.
//
// Each call of Process(), until its deferral is finished, is an execution of the node. A failed Open() or
// Close() counts as a failed execution. Nodes without streams (sessions) and side packets are left out. A
// session's servable is shown at the nodes that use it.
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

  // The counters of runs (graph::Run::Options).
  const std::shared_ptr<FlowCounters>& counters() const { return counters_; }
  // Called at the start and the end of a request or a stream. Any thread; takes no lock.
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
  std::vector<size_t> counted_;                   // by node of `plain_`: number of its counters
};

}  // namespace braid
