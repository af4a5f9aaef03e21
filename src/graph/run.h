// Run: one execution of a graph: its calculators, the packets at their inputs, and the running calls.
//
//   auto run = Run::Create(topology, std::move(options), observer);
//   BRAID_RETURN_IF_ERROR(run->Start());           // opens the nodes; packets may flow from here on
//   BRAID_RETURN_IF_ERROR(run->AddPacket(0, Packet::Of(1, Timestamp(0))));
//   run->CloseAllInputs();                          // observer.OnEnd() follows when all nodes are closed
//
// A run has no thread. Quick nodes run one after the other on the thread that makes them ready (a client's, a
// worker's); the others run on the executor. A node or the observer may call the run while it is called. The
// run then continues after that call has returned, so the stack does not grow. No method blocks. Any thread
// may call any method.
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

// No lock is held during calls. Calls come one at a time; the packets of one output come in the order of
// time.
class RunObserver {
 public:
  virtual ~RunObserver() = default;
  // A packet has come to output number `output` of the graph (see Topology::outputs()).
  virtual void OnPacket(int output, Packet packet) = 0;
  // Run::wants_input() has become true again.
  virtual void OnWantsInput() {}
  // Called once, when all nodes and, unless the run has failed, all inputs are closed; no call follows.
  // `status` is the run's error or OK. Not called if Start() has failed.
  virtual void OnEnd(Status status) = 0;
};

class Run {
 public:
  // Runs the nodes that are not quick; must not run `work` before it returns. Without an executor these nodes
  // run like quick ones.
  using Executor = std::function<void(std::function<void()> work)>;
  struct Options {
    Executor executor;
    // By name. Calculators can read them (Context::Service()), graphs cannot.
    std::map<std::string, Packet, std::less<>> services;
    // The graph's input side packets, and the provided ones.
    std::map<std::string, Packet, std::less<>> side_packets;
    // Counts the calls of nodes and the packets on streams for all runs of the topology; may be null. Nodes
    // have their numbers. Edges are the inputs of all nodes one after the other, then the outputs of the
    // graph.
    std::shared_ptr<FlowCounters> counters;
  };

  static std::shared_ptr<Run> Create(std::shared_ptr<const Topology> topology, Options options,
                                     std::shared_ptr<RunObserver> observer);
  // Cancels the run, unless it has ended.
  ~Run();

  // Opens the nodes on this thread. Packets that are added meanwhile wait. Errors: FAILED_PRECONDITION for a
  // side packet that is missing or of another type; the error of an Open(), with the text of a failed run.
  Status Start();

  // Adds a packet. Errors: FAILED_PRECONDITION when the input is closed or the run has failed or ended;
  // INVALID_ARGUMENT for a packet that is empty, of the wrong type, or at an invalid time. A time below the
  // input's bound fails the run, not the call, as in MediaPipe.
  Status AddPacket(int input, Packet packet);
  // Closes an input. A second call has no effect.
  void CloseInput(int input);
  void CloseAllInputs();
  // Ends the run with `why` and cancels deferrals. No effect if it has ended.
  void Cancel(Status why);

  // While paused, the run starts no nodes; running calls continue.
  void SetPaused(bool paused);
  // False while an input of a node has max_queue_size packets (100 by default) and the run has work to do.
  // Further packets are accepted, but the caller should wait for OnWantsInput().
  bool wants_input() const;

  class Impl;  // see run_impl.h

 private:
  explicit Run(std::shared_ptr<Impl> impl);
  std::shared_ptr<Impl> impl_;
};

}  // namespace braid::graph
