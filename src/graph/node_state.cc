#include "graph/node_state.h"

#include <utility>

#include "graph/run_impl.h"

namespace braid::graph {
namespace {

const Packet& EmptyPacket() {
  static const Packet empty;
  return empty;
}

}  // namespace

void NodeState::Init(Run::Impl& of_run, int of_number, std::span<Packet> packets,
                     std::span<Timestamp> bounds) {
  run = &of_run;
  number = of_number;
  node = &of_run.parts_.nodes[static_cast<size_t>(of_number)];
  packets_ = packets;
  bounds_ = bounds;
  calculator = node->kind->make();
  if (node->handler) handler = node->handler->Make();
}

void NodeState::DropPackets() {
  for (Packet& packet : packets_) packet = Packet();
}

const Packet& NodeState::InputSidePacket(int port) const {
  return run->side_packets_[static_cast<size_t>(node->input_side_packets[static_cast<size_t>(port)])];
}

void NodeState::Output(int port, Packet packet) {
  given.push_back({Given::Kind::kPacket, port, std::move(packet), Timestamp()});
}

void NodeState::SetNextTimestampBound(int port, Timestamp next) {
  given.push_back({Given::Kind::kBound, port, Packet(), next});
}

void NodeState::CloseOutput(int port) { given.push_back({Given::Kind::kClose, port, Packet(), Timestamp()}); }

void NodeState::SetOutputSidePacket(int port, Packet packet) {
  given.push_back({Given::Kind::kSidePacket, port, std::move(packet), Timestamp()});
}

const Packet& NodeState::Service(std::string_view name) const {
  const auto found = run->services_.find(name);
  return found == run->services_.end() ? EmptyPacket() : found->second;
}

Deferral NodeState::Defer() {
  BRAID_CHECK(phase == Phase::kRunning && !closing && !deferred);
  deferred = true;
  // Keeps the run alive until the deferral is finished.
  return Deferral(std::shared_ptr<Deferral::Target>(run->shared_from_this(), this));
}

void NodeState::FinishDeferred(Status status) {
  const std::shared_ptr<Run::Impl> keep = run->shared_from_this();
  DropPackets();
  run->FinishNode(*this, std::move(status));
}

// Input handlers call these functions. The run's mutex is held while a handler is called.

const PacketQueue& NodeState::queue(int input) const {
  run->mutex_.AssertHeld();
  return run->queues_[static_cast<size_t>(node->first_input + input)];
}

Timestamp NodeState::bound(int input) const {
  run->mutex_.AssertHeld();
  return run->streams_[static_cast<size_t>(node->inputs[static_cast<size_t>(input)])].bound;
}

Packet NodeState::Pop(int input) {
  run->mutex_.AssertHeld();
  PacketQueue& queue = run->queues_[static_cast<size_t>(node->first_input + input)];
  const size_t size = queue.size();
  Packet packet = queue.Pop();
  run->CountTaken(size, size - 1);
  return packet;
}

void NodeState::Drop(int input) {
  run->mutex_.AssertHeld();
  run->garbage_.packets.push_back(Pop(input));
}

void NodeState::NoteBounds() {
  for (int input = 0; input < size(); ++input) bounds_[static_cast<size_t>(input)] = Next(input);
}

void NodeState::Discard() {
  run->mutex_.AssertHeld();
  for (Packet& packet : packets_) {
    if (!packet.empty()) run->garbage_.packets.push_back(std::exchange(packet, Packet()));
  }
  for (int input = 0; input < size(); ++input) {
    while (!queue(input).empty()) Drop(input);
  }
}

}  // namespace braid::graph
