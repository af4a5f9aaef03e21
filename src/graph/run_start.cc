// The start of a run: takes side packets and opens the nodes in their order.
#include <algorithm>
#include <utility>

#include "base/guard.h"
#include "graph/run_impl.h"

namespace braid::graph {

Status Run::Impl::TakeSidePackets() {
  for (size_t i = 0; i < parts_.side_packets.size(); ++i) {
    const TopologySidePacket& side_packet = parts_.side_packets[i];
    if (side_packet.producer >= 0) continue;
    const auto found = given_side_packets_.find(side_packet.name);
    if (found == given_side_packets_.end() || found->second.empty()) {
      if (!side_packet.required) continue;
      return FailedPreconditionError("Side packet \"" + side_packet.name +
                                     "\" is required but was not provided.");
    }
    side_packets_[i] = found->second;
  }
  for (size_t i = 0; i < parts_.side_packets.size(); ++i) {
    const TopologySidePacket& side_packet = parts_.side_packets[i];
    if (side_packet.producer >= 0 || side_packets_[i].empty()) continue;
    const ValueType type = side_packets_[i].type();
    if (side_packet.type && !(*side_packet.type == type)) {
      return FailedPreconditionError("Side packet \"" + side_packet.name + "\" has type " + type.name() +
                                     "; expected " + side_packet.type->name() + ".");
    }
  }
  given_side_packets_.clear();
  return OkStatus();
}

Status Run::Impl::Start() {
  MutexLock lock(mutex_);
  if (entered_) return FailedPreconditionError("The run of the graph was already started.");
  entered_ = true;
  Status status = failed_ ? FinalStatus() : TakeSidePackets();
  for (const int number : parts_.order) {
    if (!status.ok() || failed_) break;
    NodeState& node = nodes_[static_cast<size_t>(number)];
    node.at = Timestamp::Unstarted();
    Status opened;
    {
      const MutexUnlock unlock(mutex_);
      opened = CallOpen(node);
    }
    const RetryingAllocation retrying;
    if (opened.ok()) {
      node.phase = NodeState::Phase::kIdle;
      ++open_nodes_;
      opened = TakeOpened(node);
    }
    if (!opened.ok()) {
      CountFailure(node);
      Fail(NodeError(node, "Open", opened));
    }
  }
  if (failed_ || !status.ok()) {
    ended_ = true;
    const std::shared_ptr<RunObserver> observer = std::move(observer_);
    Garbage garbage = std::exchange(garbage_, Garbage());
    CloseOpened();
    if (status.ok()) status = FinalStatus();
    lock.Unlock();
    return status;
  }
  started_ = true;
  {
    const RetryingAllocation retrying;
    for (size_t i = 0; i < nodes_.size(); ++i) MarkDirty(static_cast<int>(i));
    Settle();
  }
  Drive();
  return OkStatus();
}

Status Run::Impl::TakeOpened(NodeState& node) {
  for (NodeState::Given& given : node.given) {
    if (given.kind != NodeState::Given::Kind::kSidePacket) {
      BRAID_RETURN_IF_ERROR(Give(node, given));
      continue;
    }
    const int number = node.node->output_side_packets[static_cast<size_t>(given.port)];
    const TopologySidePacket& side_packet = parts_.side_packets[static_cast<size_t>(number)];
    if (side_packet.type && !given.packet.empty() && !(*side_packet.type == given.packet.type())) {
      return InvalidArgumentError("Side packet \"" + side_packet.name + "\" has type " +
                                  given.packet.type().name() + "; expected " + side_packet.type->name() +
                                  ".");
    }
    side_packets_[static_cast<size_t>(number)] = std::move(given.packet);
  }
  node.given.clear();
  if (!HasSidePackets(node)) {
    return FailedPreconditionError("The node set no value for one of its output side packets.");
  }
  return OkStatus();
}

bool Run::Impl::HasSidePackets(const NodeState& node) const {
  return std::ranges::all_of(node.node->output_side_packets, [this](int number) {
    const size_t at = static_cast<size_t>(number);
    return !parts_.side_packets[at].required || !side_packets_[at].empty();
  });
}

void Run::Impl::CloseOpened() {
  for (const int number : parts_.order) {
    NodeState& node = nodes_[static_cast<size_t>(number)];
    if (node.phase != NodeState::Phase::kIdle) continue;
    Status status;
    {
      const MutexUnlock unlock(mutex_);
      node.given.clear();
      node.at = Timestamp::Done();
      status = CallClose(node);
      node.given.clear();
    }
    if (!status.ok()) {
      CountFailure(node);
      errors_.push_back(NodeError(node, "Close", status));
    }
    node.phase = NodeState::Phase::kClosed;
  }
}

}  // namespace braid::graph
