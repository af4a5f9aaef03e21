// NodeState: the state of one node in one run: its calculator, the inputs and outputs of its calls, and its
// phase.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "graph/input_handler.h"
#include "graph/run.h"
#include "graph/topology_parts.h"

namespace braid::graph {

class NodeState final : public Context, public Deferral::Target, public NodeInputs {
 public:
  // One output of a call; kept in the order of the calls.
  struct Given {
    enum class Kind : unsigned char { kPacket, kBound, kClose, kSidePacket };
    Kind kind;
    int port;
    Packet packet;
    Timestamp bound;
  };
  enum class Phase : unsigned char {
    kNew,      // not opened
    kIdle,     // waits for inputs
    kReady,    // waits for a thread
    kRunning,  // a call runs, or its deferral is out
    kClosed,
  };

  NodeState() = default;
  // `packets` and `bounds`: one for each input.
  void Init(Run::Impl& run, int number, std::span<Packet> packets, std::span<Timestamp> bounds);

  // Constant after Init().
  Run::Impl* run = nullptr;
  const TopologyNode* node = nullptr;
  int number = 0;
  std::unique_ptr<Calculator> calculator;
  std::unique_ptr<InputHandler> handler;

  // Guarded by the run's mutex.
  Phase phase = Phase::kNew;
  bool closing = false;   // the call that is ready or running is Close()
  bool dirty = false;     // something at its inputs has changed
  bool returned = false;  // Process() has returned
  bool finished = false;  // the deferral is finished
  bool cancelled = false;
  bool cancelling = false;  // Cancel() is being called
  Status finish_status;
  int64_t start_ns = 0;  // of the call
  bool erred = false;    // Process() has failed during its deferral

  // Owned by the calling thread while the node runs.
  bool deferred = false;
  Timestamp at;
  std::vector<Given> given;

  void DropPackets();

  const Contract& contract() const override { return node->contract; }
  Timestamp input_timestamp() const override { return at; }
  const Packet& Input(int port) const override { return packets_[static_cast<size_t>(port)]; }
  Timestamp InputBound(int port) const override { return bounds_[static_cast<size_t>(port)]; }
  const Packet& InputSidePacket(int port) const override;
  void Output(int port, Packet packet) override;
  void SetNextTimestampBound(int port, Timestamp bound) override;
  void CloseOutput(int port) override;
  void SetOutputSidePacket(int port, Packet packet) override;
  const Packet& Service(std::string_view name) const override;
  Deferral Defer() override;

  void FinishDeferred(Status status) override;

  // The run's mutex is held.
  int size() const override { return static_cast<int>(packets_.size()); }
  const PacketQueue& queue(int input) const override;
  Timestamp bound(int input) const override;
  Packet Pop(int input) override;
  void Drop(int input) override;
  void Give(int input, Packet packet) override { packets_[static_cast<size_t>(input)] = std::move(packet); }
  // Records the next time at each input, for InputBound().
  void NoteBounds();
  // Drops all packets; they are destroyed later, without the mutex.
  void Discard();

 private:
  std::span<Packet> packets_;    // of the current call
  std::span<Timestamp> bounds_;  // at the start of the call
};

}  // namespace braid::graph
