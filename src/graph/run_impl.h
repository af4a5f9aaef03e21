// Run::Impl: the state of a run behind one mutex, and the loop that walks on with it.
//
// Everything that happens to a run (a packet comes, a node has ended) changes the state under the mutex and
// then enters Drive(), which calls nodes and the observer, without the mutex, until nothing is left that this
// thread could do. Several threads may drive at once. A thread that drives already, and comes here again from
// within a call, returns at once: the loop below it on its stack goes on.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

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
  using Lock = std::unique_lock<std::mutex>;

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
  Status TakeSidePackets();
  Status TakeOpened(NodeState& node);
  bool HasSidePackets(const NodeState& node) const;
  void CloseOpened();

  // run_flow.cc: what goes from node to node. With the mutex.
  PacketQueue& QueueOf(const TopologyStream::Reader& reader);
  Status CheckPacket(int stream, const Packet& packet) const;
  Status Give(NodeState& node, NodeState::Given& given);
  void Send(int stream, Packet packet);
  void RaiseBound(int stream, Timestamp bound);
  void PassBounds(NodeState& node, Timestamp bound);
  void MarkDirty(int node);
  void Settle();
  void Evaluate(NodeState& node);
  void CountTaken(size_t size_before, size_t size_after);

  // run_drive.cc: who runs. With the mutex, but for the calls themselves.
  void Drive(Lock& lock);
  bool Step(Lock& lock);
  void DeliverEvents(Lock& lock);
  void CallCancel(Lock& lock);
  NodeState* PickReady();
  bool MayRun(const NodeState& source) const;
  void MakeReady(NodeState& node, bool closing);
  void Begin(Lock& lock, NodeState& node);
  void CallNode(Lock& lock, NodeState& node);
  void FinishNode(NodeState& node, Status status);
  void EndCall(NodeState& node, Status status);
  void EndClose(NodeState& node);
  bool InputsClosed() const;
  bool EndIfOver();
  bool CloseWhatIsLeft();
  void StopInputs();
  void Fail(Status error);
  void CloseAll();
  bool NoteWants();
  bool idle() const { return running_ == 0 && ready_.empty() && ready_sources_.empty(); }
  bool wants() const { return full_ == 0 || idle(); }
  Status FinalStatus() const;

  // Constant.
  const std::shared_ptr<const Topology> topology_;  // shared by all runs of the graph
  const Topology::Parts& parts_;
  const Executor executor_;
  const std::map<std::string, Packet, std::less<>> services_;

  mutable std::mutex mutex_;
  // All guarded by mutex_, but what NodeState says otherwise of.
  std::map<std::string, Packet, std::less<>> given_side_packets_;  // until Start()
  std::vector<Packet> side_packets_;                               // constant once the nodes are opened
  std::vector<NodeState> nodes_;
  std::vector<Packet> packets_;    // of the nodes' calls
  std::vector<Timestamp> bounds_;  // of the nodes' calls
  std::vector<PacketQueue> queues_;
  std::vector<Stream> streams_;
  std::vector<int> dirty_;          // nodes, in the order in which they were marked
  std::vector<int> ready_;          // a heap of ranks: the greatest first
  std::vector<int> ready_sources_;  // nodes
  std::vector<int> cancels_;        // nodes whose Cancel() is to be called
  std::vector<Event> events_;
  std::vector<Event> delivered_;  // the memory of the last ones; the thread's that delivers
  Garbage garbage_;
  std::vector<Status> errors_;
  Status cancelled_;
  int open_nodes_ = 0;
  int running_ = 0;  // calls, those among them whose deferral is out
  int full_ = 0;     // inputs that have max_queue_size packets
  bool entered_ = false;
  bool started_ = false;
  bool failed_ = false;
  bool ended_ = false;
  bool settling_ = false;
  bool stopping_ = false;  // nodes without input streams are closed instead of called
  bool paused_ = false;
  bool delivering_ = false;
  bool wanted_ = true;
  std::shared_ptr<RunObserver> observer_;  // shared with whoever has made the run; until OnEnd()
};

// What a call of a node has come to, as the end of the run says it. `call` is "Open", "Process" or "Close".
Status NodeError(const NodeState& node, std::string_view call, const Status& status);
// Calls the calculator; exceptions become errors.
Status CallOpen(NodeState& node);
Status CallProcess(NodeState& node);
Status CallClose(NodeState& node);

}  // namespace braid::graph
