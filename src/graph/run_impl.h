// Run::Impl: the state of a run behind one mutex, and the loop that drives it.
//
// Every event of a run (a packet comes, a node has ended) changes the state under the mutex and then enters
// Drive(). Drive() calls nodes and the observer, without the mutex, until this thread has nothing left to do.
// Several threads may drive at once. A call of Drive() from within a driving thread returns at once: the
// outer loop continues.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "base/serial_delivery.h"
#include "graph/node_state.h"
#include "graph/run.h"
#include "graph/topology_parts.h"

namespace braid::graph {

class Run::Impl : public std::enable_shared_from_this<Run::Impl> {
 public:
  Impl(std::shared_ptr<const Topology> topology, Options options, std::shared_ptr<RunObserver> observer);

  Status Start();
  Status AddPacket(int input, Packet packet);
  void CloseInput(int input);
  void CloseAllInputs();
  void Cancel(Status why);
  void SetPaused(bool paused);
  bool wants_input() const;

 private:
  friend class NodeState;

  struct Stream {
    Timestamp bound = Timestamp::PreStream();
  };
  struct Event {
    enum class Kind : unsigned char { kPacket, kWantsInput, kEnd };
    Kind kind;
    int output = 0;
    Packet packet;
    Status status;
  };
  struct Garbage {
    std::vector<Packet> packets;
    std::vector<NodeState::Given> given;
    bool empty() const { return packets.empty() && given.empty(); }
  };

  // run_start.cc: before started_.
  Status TakeSidePackets() BRAID_REQUIRES(mutex_);
  Status TakeOpened(NodeState& node) BRAID_REQUIRES(mutex_);
  bool HasSidePackets(const NodeState& node) const BRAID_REQUIRES(mutex_);
  void CloseOpened() BRAID_REQUIRES(mutex_);

  // run_flow.cc: packets and bounds between nodes.
  PacketQueue& QueueOf(const TopologyStream::Reader& reader) BRAID_REQUIRES(mutex_);
  Status CheckPacket(int stream, const Packet& packet) const BRAID_REQUIRES(mutex_);
  Status Give(NodeState& node, NodeState::Given& given) BRAID_REQUIRES(mutex_);
  void Send(int stream, Packet packet) BRAID_REQUIRES(mutex_);
  void RaiseBound(int stream, Timestamp bound) BRAID_REQUIRES(mutex_);
  void PassBounds(NodeState& node, Timestamp bound) BRAID_REQUIRES(mutex_);
  void MarkDirty(int node) BRAID_REQUIRES(mutex_);
  void Settle() BRAID_REQUIRES(mutex_);
  void Evaluate(NodeState& node) BRAID_REQUIRES(mutex_);
  void CountTaken(size_t size_before, size_t size_after) BRAID_REQUIRES(mutex_);

  // run_drive.cc: the choice of the next call. Calls are made without the mutex.
  void Drive() BRAID_REQUIRES(mutex_);
  bool Step() BRAID_REQUIRES(mutex_);
  void DeliverEvents() BRAID_REQUIRES(mutex_);
  static void Deliver(Event& event, RunObserver& observer);
  void CallCancel() BRAID_REQUIRES(mutex_);
  NodeState* PickReady() BRAID_REQUIRES(mutex_);
  bool MayRun(const NodeState& source) const BRAID_REQUIRES(mutex_);
  void MakeReady(NodeState& node, bool closing) BRAID_REQUIRES(mutex_);
  void Begin(NodeState& node) BRAID_REQUIRES(mutex_);
  void CallNode(NodeState& node) BRAID_REQUIRES(mutex_);
  void FinishNode(NodeState& node, Status status);
  void EndCall(NodeState& node, Status status) BRAID_REQUIRES(mutex_);
  void EndClose(NodeState& node) BRAID_REQUIRES(mutex_);
  bool InputsClosed() const BRAID_REQUIRES(mutex_);
  bool EndIfOver() BRAID_REQUIRES(mutex_);
  bool CloseWhatIsLeft() BRAID_REQUIRES(mutex_);
  void StopInputs() BRAID_REQUIRES(mutex_);
  void Fail(Status error) BRAID_REQUIRES(mutex_);
  void CountStart(NodeState& node) BRAID_REQUIRES(mutex_);
  void CountEnd(NodeState& node, bool failed) BRAID_REQUIRES(mutex_);
  // Counts a failure outside Process().
  void CountFailure(const NodeState& node) BRAID_REQUIRES(mutex_);
  void CloseAll() BRAID_REQUIRES(mutex_);
  bool NoteWants() BRAID_REQUIRES(mutex_);
  bool idle() const BRAID_REQUIRES(mutex_) {
    return running_ == 0 && ready_.empty() && ready_sources_.empty();
  }
  bool wants() const BRAID_REQUIRES(mutex_) { return full_ == 0 || idle(); }
  Status FinalStatus() const BRAID_REQUIRES(mutex_);

  // Constant.
  const std::shared_ptr<const Topology> topology_;  // shared by all runs of the graph
  const Topology::Parts& parts_;
  const Executor executor_;
  const std::map<std::string, Packet, std::less<>> services_;
  const std::shared_ptr<FlowCounters> counters_;  // shared by all runs of the graph; may be null

  mutable Mutex mutex_;
  // mutex_ guards the nodes, their packets and bounds, unless NodeState says otherwise.
  std::map<std::string, Packet, std::less<>> given_side_packets_ BRAID_GUARDED_BY(mutex_);  // until Start()
  std::vector<Packet> side_packets_;  // constant once the nodes are opened
  std::vector<NodeState> nodes_;
  std::vector<Packet> packets_;    // of the nodes' calls
  std::vector<Timestamp> bounds_;  // of the nodes' calls
  std::vector<PacketQueue> queues_ BRAID_GUARDED_BY(mutex_);
  std::vector<Stream> streams_ BRAID_GUARDED_BY(mutex_);
  std::vector<int> dirty_ BRAID_GUARDED_BY(mutex_);          // nodes, in the order in which they were marked
  std::vector<int> ready_ BRAID_GUARDED_BY(mutex_);          // a heap of ranks: the greatest first
  std::vector<int> ready_sources_ BRAID_GUARDED_BY(mutex_);  // nodes
  std::vector<int> cancels_ BRAID_GUARDED_BY(mutex_);        // nodes whose Cancel() must be called
  std::vector<Event> events_ BRAID_GUARDED_BY(mutex_);
  std::vector<Event> delivered_;  // keeps its memory; used by the delivering thread
  Garbage garbage_ BRAID_GUARDED_BY(mutex_);
  std::vector<Status> errors_ BRAID_GUARDED_BY(mutex_);
  Status cancelled_ BRAID_GUARDED_BY(mutex_);
  int open_nodes_ BRAID_GUARDED_BY(mutex_) = 0;
  int running_ BRAID_GUARDED_BY(mutex_) = 0;  // calls, also those with a deferral
  int full_ BRAID_GUARDED_BY(mutex_) = 0;     // inputs with max_queue_size packets
  bool entered_ BRAID_GUARDED_BY(mutex_) = false;
  bool started_ BRAID_GUARDED_BY(mutex_) = false;
  bool failed_ BRAID_GUARDED_BY(mutex_) = false;
  bool ended_ BRAID_GUARDED_BY(mutex_) = false;
  bool settling_ BRAID_GUARDED_BY(mutex_) = false;
  // Nodes without input streams are closed instead of being called.
  bool stopping_ BRAID_GUARDED_BY(mutex_) = false;
  bool paused_ BRAID_GUARDED_BY(mutex_) = false;
  SerialDelivery delivery_ BRAID_GUARDED_BY(mutex_);  // of events
  bool wanted_ BRAID_GUARDED_BY(mutex_) = true;
  // Shared with the creator of the run; until OnEnd().
  std::shared_ptr<RunObserver> observer_ BRAID_GUARDED_BY(mutex_);
};

// Returns the run's error for a node's call. `call` is "Open", "Process" or "Close".
Status NodeError(const NodeState& node, std::string_view call, const Status& status);
// Call the calculator; exceptions become errors.
Status CallOpen(NodeState& node);
Status CallProcess(NodeState& node);
Status CallClose(NodeState& node);

}  // namespace braid::graph
