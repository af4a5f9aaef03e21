// TimestampAlignInputStreamHandler: inputs whose clocks differ. Until each input has had a packet, only those
// of the base pass. Then the times of the other inputs are shifted, so that the first packet of each is at
// the time of the base's. Packets of the same time are processed together.
#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "graph/handlers/handler_kinds.h"
#include "graph/port_names.h"
#include "mediapipe/stream_handlers.pb.h"

namespace braid::graph {
namespace {

class TimestampAlignHandler final : public InputHandler {
 public:
  TimestampAlignHandler(int inputs, int base) : base_(base), offsets_(static_cast<size_t>(inputs)) {}

  HandlerStep Next(NodeInputs& inputs) override {
    if (!aligned_) aligned_ = Align(inputs);
    if (aligned_) return NextAligned(inputs);
    if (inputs.done(base_)) return {HandlerStep::Kind::kClose, Timestamp::Done()};
    const Timestamp at = inputs.Next(base_);
    if (inputs.queue(base_).empty()) return {HandlerStep::Kind::kWait, at};
    inputs.Take(base_);
    return {HandlerStep::Kind::kProcess, at};
  }

 private:
  bool Align(const NodeInputs& inputs) {
    for (int input = 0; input < inputs.size(); ++input) {
      if (inputs.queue(input).empty()) return false;
    }
    const int64_t base = inputs.Next(base_).value();
    for (int input = 0; input < inputs.size(); ++input) {
      // Differences of distant times wrap around, and back again when they are added.
      offsets_[static_cast<size_t>(input)] =
          static_cast<uint64_t>(base) - static_cast<uint64_t>(inputs.Next(input).value());
    }
    return true;
  }

  Timestamp Moved(Timestamp at, int input) const {
    if (!at.IsRangeValue()) return at;
    const uint64_t moved = static_cast<uint64_t>(at.value()) + offsets_[static_cast<size_t>(input)];
    return Timestamp(static_cast<int64_t>(moved));
  }

  HandlerStep NextAligned(NodeInputs& inputs) const {
    Timestamp packet = Timestamp::Done();
    Timestamp bound = Timestamp::Done();
    for (int input = 0; input < inputs.size(); ++input) {
      Timestamp& least = inputs.queue(input).empty() ? bound : packet;
      least = std::min(least, Moved(inputs.Next(input), input));
    }
    const Timestamp next = std::min(packet, bound);
    if (next == Timestamp::Done()) return {HandlerStep::Kind::kClose, next};
    if (packet >= bound) return {HandlerStep::Kind::kWait, next};
    for (int input = 0; input < inputs.size(); ++input) {
      if (!inputs.queue(input).empty() && Moved(inputs.Next(input), input) == packet) {
        inputs.Give(input, inputs.Pop(input).At(packet));
      }
    }
    return {HandlerStep::Kind::kProcess, packet};
  }

  int base_;
  bool aligned_ = false;
  std::vector<uint64_t> offsets_;  // by input; modulo 2^64
};

class TimestampAlignPlan final : public InputHandlerPlan {
 public:
  TimestampAlignPlan(int inputs, int base) : inputs_(inputs), base_(base) {}
  std::unique_ptr<InputHandler> Make() const override {
    return std::make_unique<TimestampAlignHandler>(inputs_, base_);
  }

 private:
  int inputs_;
  int base_;
};

}  // namespace

HandlerPlan PlanTimestampAlignHandler(const ::mediapipe::MediaPipeOptions& options,
                                      const Contract& contract) {
  const std::string& text = options.GetExtension(::mediapipe::TimestampAlignInputStreamHandlerOptions::ext)
                                .timestamp_base_tag_index();
  const std::optional<TagIndex> tag_index = ParseTagIndex(text);
  const int base = tag_index ? contract.inputs().Find(tag_index->tag, tag_index->index) : -1;
  if (base < 0) {
    return InvalidArgumentError("timestamp_base_tag_index of TimestampAlignInputStreamHandler is '" + text +
                                "'; expected one of the node's inputs, as 'TAG:INDEX'");
  }
  return HandlerPlan(std::make_shared<const TimestampAlignPlan>(contract.inputs().size(), base));
}

}  // namespace braid::graph
