// Packets and bounds between nodes.
#include <algorithm>
#include <utility>

#include "graph/run_impl.h"

namespace braid::graph {
namespace {

// Moves `bound` by `offset`, within the range of packets. Special values stay as they are.
Timestamp Shift(Timestamp bound, int64_t offset) {
  if (!bound.IsRangeValue()) return bound;
  if (offset > 0 && bound.value() > Timestamp::Max().value() - offset) return Timestamp::OneOverPostStream();
  if (offset < 0 && bound.value() < Timestamp::Min().value() - offset) return Timestamp::Min();
  return Timestamp(bound.value() + offset);
}

}  // namespace

PacketQueue& Run::Impl::QueueOf(const TopologyStream::Reader& reader) {
  const int first = parts_.nodes[static_cast<size_t>(reader.node)].first_input;
  return queues_[static_cast<size_t>(first + reader.input)];
}

Status Run::Impl::CheckPacket(int stream, const Packet& packet) const {
  const TopologyStream& of = parts_.streams[static_cast<size_t>(stream)];
  const Timestamp bound = streams_[static_cast<size_t>(stream)].bound;
  const std::string where = "stream \"" + of.name + "\"";
  if (packet.empty()) return InvalidArgumentError("Packet without a value on " + where + ".");
  if (!packet.timestamp().IsAllowedInStream()) {
    return InvalidArgumentError("In " + where + ", timestamp not specified or set to illegal value: " +
                                packet.timestamp().DebugString());
  }
  if (of.type && !(*of.type == packet.type())) {
    return InvalidArgumentError("Packet type mismatch on " + where + ": expected " + of.type->name() +
                                ", but received " + packet.type().name() + ".");
  }
  if (bound == Timestamp::Done()) {
    return FailedPreconditionError("Packet sent to closed " + where + ".");
  }
  if (of.keeps_time && packet.timestamp() < bound) {
    return InvalidArgumentError("Packet timestamp mismatch on a calculator receiving from " + where +
                                ". Current minimum expected timestamp is " + bound.DebugString() +
                                " but received " + packet.timestamp().DebugString() +
                                ". Timestamps of a stream must increase from packet to packet.");
  }
  return OkStatus();
}

Status Run::Impl::Give(NodeState& node, NodeState::Given& given) {
  if (given.kind == NodeState::Given::Kind::kSidePacket) {
    return FailedPreconditionError("Output side packets must be set in Open(), before the run starts.");
  }
  const int number = node.node->outputs[static_cast<size_t>(given.port)];
  switch (given.kind) {
    case NodeState::Given::Kind::kPacket:
      BRAID_RETURN_IF_ERROR(CheckPacket(number, given.packet));
      Send(number, std::move(given.packet));
      break;
    case NodeState::Given::Kind::kBound:
      RaiseBound(number, given.bound);
      break;
    case NodeState::Given::Kind::kClose:
    case NodeState::Given::Kind::kSidePacket:
      RaiseBound(number, Timestamp::Done());
      break;
  }
  Settle();
  return OkStatus();
}

void Run::Impl::Send(int number, Packet packet) {
  const TopologyStream& of = parts_.streams[static_cast<size_t>(number)];
  Stream& stream = streams_[static_cast<size_t>(number)];
  stream.bound = std::max(stream.bound, packet.timestamp().NextAllowedInStream());
  for (const TopologyStream::Reader& reader : of.readers) {
    NodeState& node = nodes_[static_cast<size_t>(reader.node)];
    if (node.phase == NodeState::Phase::kClosed || node.closing) continue;
    PacketQueue& queue = QueueOf(reader);
    queue.Push(packet);
    if (counters_) counters_->Passed(static_cast<size_t>(node.node->first_input + reader.input), 1);
    if (static_cast<int>(queue.size()) == parts_.max_queue_size) ++full_;
    if (node.node->handler->wants_arrivals()) node.handler->OnArrival(node, reader.input);
    MarkDirty(reader.node);
  }
  if (of.graph_output >= 0) {
    if (counters_) counters_->Passed(static_cast<size_t>(parts_.input_count + of.graph_output), 1);
    events_.push_back({Event::Kind::kPacket, of.graph_output, std::move(packet), OkStatus()});
  } else {
    garbage_.packets.push_back(std::move(packet));
  }
  Settle();
}

void Run::Impl::RaiseBound(int number, Timestamp bound) {
  Stream& stream = streams_[static_cast<size_t>(number)];
  if (bound <= stream.bound) return;
  stream.bound = bound;
  for (const TopologyStream::Reader& reader : parts_.streams[static_cast<size_t>(number)].readers) {
    MarkDirty(reader.node);
  }
}

void Run::Impl::PassBounds(NodeState& node, Timestamp bound) {
  const int64_t offset = *node.node->contract.timestamp_offset();
  const Timestamp shifted = Shift(bound, offset);
  for (const int stream : node.node->outputs) RaiseBound(stream, shifted);
}

void Run::Impl::MarkDirty(int number) {
  NodeState& node = nodes_[static_cast<size_t>(number)];
  if (node.dirty || node.phase == NodeState::Phase::kClosed) return;
  node.dirty = true;
  dirty_.push_back(number);
}

// A list instead of recursion: bounds may pass through long chains of idle nodes.
void Run::Impl::Settle() {
  if (!started_ || settling_) return;
  settling_ = true;
  for (size_t i = 0; i < dirty_.size(); ++i) {
    NodeState& node = nodes_[static_cast<size_t>(dirty_[i])];
    node.dirty = false;
    Evaluate(node);
  }
  dirty_.clear();
  settling_ = false;
}

void Run::Impl::Evaluate(NodeState& node) {
  if (node.phase != NodeState::Phase::kIdle || failed_) return;
  if (node.node->source()) {
    // One without outputs has done all it can in Open().
    MakeReady(node, stopping_ || node.node->outputs.empty());
    return;
  }
  const HandlerStep step = node.handler->Next(node);
  switch (step.kind) {
    case HandlerStep::Kind::kWait:
      if (node.node->passes_bounds) PassBounds(node, step.timestamp);
      break;
    case HandlerStep::Kind::kProcess:
      node.at = step.timestamp;
      node.NoteBounds();
      MakeReady(node, false);
      break;
    case HandlerStep::Kind::kClose:
      MakeReady(node, true);
      break;
    case HandlerStep::Kind::kFail:
      CountFailure(node);
      Fail(NodeError(node, "Process", step.error));
      break;
  }
}

void Run::Impl::CountTaken(size_t size_before, size_t size_after) {
  const size_t most = static_cast<size_t>(parts_.max_queue_size);
  if (parts_.max_queue_size > 0 && size_before >= most && size_after < most) --full_;
}

}  // namespace braid::graph
