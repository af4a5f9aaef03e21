// GraphRun: one run of a graph, the common base of requests and streams to a graph. It waits for a slot,
// opens the graph, and ends. It can be stopped at any time.
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

// The state that all runs of a graph share. The servable and each run own it together.
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

  // Returns the options of a run for a call with the client's side packets; `session` is the Python nodes'
  // session.
  graph::Run::Options RunOptions(const GraphCall& call, SidePackets side_packets, uint64_t session) const;

  // The current runs. Any thread.
  void Add(const std::shared_ptr<GraphRun>& run);
  void Remove(const GraphRun& run);
  // Stops all of them with `why`.
  void StopAll(const Status& why);
  size_t runs() const;

 private:
  const std::map<std::string, graph::Packet, std::less<>> services_;
  const graph::Packet python_resources_;

  mutable Mutex mutex_;
  std::unordered_map<const GraphRun*, std::weak_ptr<GraphRun>> runs_ BRAID_GUARDED_BY(mutex_);
};

// The owner is the waiter list of the slots while it waits, and the graph's run (whose observer it is) while
// it runs.
class GraphRun : public graph::RunObserver,
                 public GraphSlots::Waiter,
                 public std::enable_shared_from_this<GraphRun> {
 public:
  // Ends it with `why`, unless it is over. Any thread; no lock is held, since it may call OnOver().
  void Stop(Status why);

 protected:
  // `servable` gets the counts. The derived class keeps a place in its gate until the end of OnOver().
  GraphRun(std::shared_ptr<GraphHost> host, GraphCall call, Servable& servable, ApiMethod method)
      : host_(std::move(host)), call_(std::move(call)), servable_(servable), method_(method) {}

  // Gets a slot, now or later, and then opens the graph. `parameters` are the client's, for nodes that keep
  // state. Called once.
  void Begin(SidePackets side_packets, Parameters parameters);

  // The graph is open and takes packets.
  virtual void OnBegun(graph::Run& run) = 0;
  // The run is over: OK, or the error for the client. Called once, also without OnBegun().
  virtual void OnOver(Status status) = 0;

  GraphHost& host() const { return *host_; }
  const GraphCall& call() const { return call_; }
  Servable& servable() const { return servable_; }
  // SteadyNowNs() when it got its slot; 0 before.
  int64_t begun_ns() const { return begun_ns_; }
  // Null before the graph is open and after the run is over.
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
  int64_t begun_ns_ = 0;      // set before the graph is open, by the thread that opens it
  uint64_t session_ = 0;      // likewise; the session of the Python nodes
  bool in_session_ = false;   // likewise

  mutable Mutex mutex_;
  std::shared_ptr<graph::Run> run_ BRAID_GUARDED_BY(mutex_);  // shared with threads that feed it
  bool over_ BRAID_GUARDED_BY(mutex_) = false;
  Status stop_ BRAID_GUARDED_BY(mutex_);  // the reason of the first Stop()
};

}  // namespace braid
