// Run: one life of a graph: the nodes' calculators, what waits on their inputs, and who is running.
//
//   auto run = Run::Create(topology, std::move(options), observer);
//   BRAID_RETURN_IF_ERROR(run->Start());           // opens the nodes; packets may flow from here on
//   BRAID_RETURN_IF_ERROR(run->AddPacket(0, Packet::Of(1, Timestamp(0))));
//   run->CloseAllInputs();                          // observer.OnEnd() follows when all nodes are closed
//
// A run has no thread. Nodes that are quick run on the thread that makes them ready (a client's, a worker's),
// one after the other; the others run on the executor. What a node or the observer does to the run while it
// is called goes on when the call has returned, so no stack grows. No method blocks, and any thread may call
// any of them.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>

#include "base/flow_counters.h"
#include "base/status.h"
#include "graph/packet.h"
#include "graph/topology.h"

namespace braid::graph {

// Calls are never made with a lock held, and come one at a time; those of one output in the order of time.
class RunObserver {
 public:
  virtual ~RunObserver() = default;
  // A packet on an output of the graph (its number in Topology::outputs()).
  virtual void OnPacket(int output, Packet packet) = 0;
  // Run::wants_input() has become true again.
  virtual void OnWantsInput() {}
  // All nodes and, unless the run has failed, all inputs are closed, and nothing is called any more. What the
  // run failed with, or OK. Once; not when Start() has failed.
  virtual void OnEnd(Status status) = 0;
};

class Run {
 public:
  // Where nodes run that are not quick; must not run the work before it returns. Without one, they run as
  // those that are quick.
  using Executor = std::function<void(std::function<void()> work)>;
  struct Options {
    Executor executor;
    // By name; for calculators (Context::Service()), not for graphs.
    std::map<std::string, Packet, std::less<>> services;
    // The graph's input side packets, and those provided.
    std::map<std::string, Packet, std::less<>> side_packets;
    // Where the calls of nodes and the packets on streams are counted, for all runs of the topology; null:
    // nowhere. Nodes by their numbers; edges are the inputs of all nodes one after the other, then the
    // outputs of the graph.
    std::shared_ptr<FlowCounters> counters;
  };

  static std::shared_ptr<Run> Create(std::shared_ptr<const Topology> topology, Options options,
                                     std::shared_ptr<RunObserver> observer);
  // Cancels the run, if it has not ended.
  ~Run();

  // Opens the nodes on this thread. Errors: a side packet that is missing or of another type
  // (FAILED_PRECONDITION); what an Open() failed with, as the end of a run would say it. Packets that are
  // added meanwhile wait.
  Status Start();

  // Errors: FAILED_PRECONDITION when the input is closed or the run has failed or ended; INVALID_ARGUMENT for
  // a packet that is empty, of the wrong type, or at a time that no packet may have. A time below the input's
  // bound fails the run, not the call, as in MediaPipe.
  Status AddPacket(int input, Packet packet);
  // Nothing more will come at an input; a second time is no error.
  void CloseInput(int input);
  void CloseAllInputs();
  // Ends the run with `why`; what is deferred is cancelled. Nothing when it has ended.
  void Cancel(Status why);

  // While paused, no node is started; what runs goes on.
  void SetPaused(bool paused);
  // False while max_queue_size packets (100 without one) wait at some input of a node and the run has
  // something to do. More are taken, but whoever feeds it should wait for OnWantsInput().
  bool wants_input() const;

  class Impl;  // see run_impl.h

 private:
  explicit Run(std::shared_ptr<Impl> impl);
  std::shared_ptr<Impl> impl_;
};

}  // namespace braid::graph
