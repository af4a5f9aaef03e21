// SyncSet: inputs of a node that belong together in time. One call processes all packets of one timestamp.
#pragma once

#include <algorithm>
#include <numeric>
#include <utility>
#include <vector>

#include "graph/input_handler.h"

namespace braid::graph {

class SyncSet {
 public:
  // `bounds`: a time is processed when it is settled, even without a packet.
  SyncSet(std::vector<int> inputs, bool bounds) : inputs_(std::move(inputs)), bounds_(bounds) {}

  // Makes a set of all inputs of a node.
  static SyncSet Of(const Contract& contract) {
    std::vector<int> inputs(static_cast<size_t>(contract.inputs().size()));
    std::iota(inputs.begin(), inputs.end(), 0);
    return SyncSet(std::move(inputs), contract.process_timestamp_bounds());
  }

  // Returns the next possible step; takes nothing.
  HandlerStep Look(const NodeInputs& inputs) const {
    Timestamp packet = Timestamp::Done();
    Timestamp bound = Timestamp::Done();
    for (const int input : inputs_) {
      const PacketQueue& queue = inputs.queue(input);
      if (queue.empty()) {
        bound = std::min(bound, inputs.bound(input));
      } else {
        packet = std::min(packet, queue.front().timestamp());
      }
    }
    const Timestamp next = std::min(packet, bound);
    if (next == Timestamp::Done()) return {HandlerStep::Kind::kClose, next};
    if (packet < bound) return {HandlerStep::Kind::kProcess, packet};
    if (bounds_ && bound.IsRangeValue()) {
      const Timestamp settled = LastBefore(bound);
      if (settled > processed_) return {HandlerStep::Kind::kProcess, settled};
    }
    return {HandlerStep::Kind::kWait, next};
  }

  // Takes the packets of that time. REQUIRES: Look() has just returned it.
  void Take(NodeInputs& inputs, Timestamp at) {
    for (const int input : inputs_) {
      const PacketQueue& queue = inputs.queue(input);
      if (!queue.empty() && queue.front().timestamp() == at) inputs.Take(input);
    }
    processed_ = at;
  }

 private:
  // Returns the greatest time that is settled if nothing before `bound` will come; Unstarted() if there is
  // none.
  static Timestamp LastBefore(Timestamp bound) {
    if (bound <= Timestamp::Min()) return Timestamp::Unstarted();
    return Timestamp(bound.value() - 1);
  }

  std::vector<int> inputs_;
  bool bounds_;
  Timestamp processed_ = Timestamp::Unstarted();
};

}  // namespace braid::graph
