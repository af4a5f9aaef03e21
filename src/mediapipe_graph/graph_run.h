// GraphRun: what a request to a graph and a stream have in common: one run of the graph, which waits for a
// slot, is opened, ends, and can be ended from outside at any time.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>

#include "base/mutex.h"
#include "base/status.h"
#include "graph/run.h"
#include "mediapipe_graph/graph_definition.h"
#include "mediapipe_graph/graph_message.h"
#include "mediapipe_graph/graph_servables.h"
#include "mediapipe_graph/graph_slots.h"
#include "mediapipe_graph/graph_structure.h"
#include "mediapipe_graph/python_node_resources.h"
#include "scheduling/timer_service.h"
#include "serving/servable.h"

namespace braid {

class GraphRun;

// What all runs of a graph share; the servable has it, and each run, so that it outlives the last of them.
class GraphHost {
 public:
  using Executor = std::function<void(std::function<void()> work)>;

  // `python` is null for a graph without Python nodes. `timers` outlives the host.
  GraphHost(GraphDefinition definition, std::shared_ptr<PythonNodes> python, graph::Packet python_resources,
            std::shared_ptr<const GraphServables> servables, Executor executor, Timers& timers);

  const GraphDefinition definition;
  const std::shared_ptr<PythonNodes> python;  // shared with side packets of runs
  const Executor executor;
  const std::shared_ptr<const GraphServables> servables;  // shared with the runs
  Timers& timers;
  GraphSlots slots;
  GraphStructure structure;

  // What a run gets for a call with these side packets of the client; `session` is the Python nodes' one.
  graph::Run::Options RunOptions(const GraphCall& call, SidePackets side_packets, uint64_t session) const;

  // The runs that are there now. Any thread.
  void Add(const std::shared_ptr<GraphRun>& run);
  void Remove(const GraphRun& run);
  // Ends all of them with `why`.
  void StopAll(const Status& why);
  size_t runs() const;

 private:
  const std::map<std::string, graph::Packet, std::less<>> services_;
  const graph::Packet python_resources_;

  mutable Mutex mutex_;
  std::unordered_map<const GraphRun*, std::weak_ptr<GraphRun>> runs_ BRAID_GUARDED_BY(mutex_);
};

// Kept alive by whoever waits for its end: the slots while it waits, the run of the graph (as its observer)
// while it runs.
class GraphRun : public graph::RunObserver,
                 public GraphSlots::Waiter,
                 public std::enable_shared_from_this<GraphRun> {
 public:
  // Ends it with `why`, unless it is over. Any thread. Not under locks: OnOver() may be called within.
  void Stop(Status why);

 protected:
  // `servable` is counted at; whoever derives from this holds a place in it until the end of OnOver().
  GraphRun(std::shared_ptr<GraphHost> host, GraphCall call, Servable& servable, ApiMethod method)
      : host_(std::move(host)), call_(std::move(call)), servable_(servable), method_(method) {}

  // Gets a slot, now or later, and then opens the graph. `parameters` are the client's, for nodes that keep
  // state. Called once.
  void Begin(SidePackets side_packets, Parameters parameters);

  // The graph is open: packets may go in.
  virtual void OnBegun(graph::Run& run) = 0;
  // It is over, once: OK, or why not, as the client is to be told. Also without OnBegun().
  virtual void OnOver(Status status) = 0;

  GraphHost& host() const { return *host_; }
  const GraphCall& call() const { return call_; }
  Servable& servable() const { return servable_; }
  // SteadyNowNs() when it got its slot; 0 before.
  int64_t begun_ns() const { return begun_ns_; }
  // Null before it has begun and when it is over.
  std::shared_ptr<graph::Run> run() const;

 private:
  void OnSlot() final;
  // Makes the run and starts it.
  Status StartRun(std::shared_ptr<graph::Run>& run);
  void OnEnd(Status status) final;
  void Over(Status status, bool had_slot);
  void CountEnd(const Status& status, bool had_slot);

  const std::shared_ptr<GraphHost> host_;  // shared with the servable and other runs
  const GraphCall call_;
  Servable& servable_;
  const ApiMethod method_;
  SidePackets side_packets_;  // until it begins
  Parameters parameters_;     // until it begins
  int64_t entered_ns_ = 0;    // when Begin() was called
  int64_t begun_ns_ = 0;      // written by the thread that begins it, before the graph is open
  uint64_t session_ = 0;      // likewise; of the Python nodes
  bool in_session_ = false;   // likewise

  mutable Mutex mutex_;
  std::shared_ptr<graph::Run> run_ BRAID_GUARDED_BY(mutex_);  // shared with threads that feed it
  bool over_ BRAID_GUARDED_BY(mutex_) = false;
  Status stop_ BRAID_GUARDED_BY(mutex_);  // what Stop() was called with first
};

}  // namespace braid
