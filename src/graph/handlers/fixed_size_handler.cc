// FixedSizeInputStreamHandler: like the default, but a node that is too slow loses the oldest packets. A
// queue that has reached the trigger keeps its newest packets; the other queues drop older packets than
// those.
#include <algorithm>
#include <cstdint>
#include <string>

#include "graph/handlers/handler_kinds.h"
#include "graph/handlers/sync_set.h"
#include "mediapipe/stream_handlers.pb.h"

namespace braid::graph {
namespace {

struct FixedSize {
  size_t trigger;
  size_t target;
  bool all;  // nothing is dropped until all queues have reached the trigger
};

class FixedSizeHandler final : public InputHandler {
 public:
  FixedSizeHandler(SyncSet set, FixedSize size) : set_(std::move(set)), size_(size) {}

  HandlerStep Next(NodeInputs& inputs) override {
    const HandlerStep step = set_.Look(inputs);
    if (step.kind == HandlerStep::Kind::kProcess) set_.Take(inputs, step.timestamp);
    return step;
  }

  void OnArrival(NodeInputs& inputs, int) override {
    Timestamp oldest = Timestamp::Done();
    Timestamp newest = Timestamp::Unset();
    bool all = true;
    for (int input = 0; input < inputs.size(); ++input) {
      const PacketQueue& queue = inputs.queue(input);
      if (queue.size() < size_.trigger) {
        all = false;
        continue;
      }
      const Timestamp kept = queue[queue.size() - std::min(queue.size(), size_.target)].timestamp();
      oldest = std::min(oldest, kept);
      // A queue without surplus packets does not affect the others.
      if (queue.size() > size_.target) newest = std::max(newest, kept);
    }
    if (size_.all) {
      if (all) kept_from_ = std::max(kept_from_, oldest);
    } else {
      kept_from_ = std::max(kept_from_, newest);
    }
    for (int input = 0; input < inputs.size(); ++input) {
      while (!inputs.queue(input).empty() && inputs.queue(input).front().timestamp() < kept_from_) {
        inputs.Drop(input);
      }
    }
  }

 private:
  SyncSet set_;
  FixedSize size_;
  Timestamp kept_from_;  // older packets are dropped, also later ones
};

class FixedSizePlan final : public InputHandlerPlan {
 public:
  FixedSizePlan(SyncSet set, FixedSize size) : set_(std::move(set)), size_(size) {}
  std::unique_ptr<InputHandler> Make() const override {
    return std::make_unique<FixedSizeHandler>(set_, size_);
  }
  bool wants_arrivals() const override { return true; }

 private:
  SyncSet set_;
  FixedSize size_;
};

}  // namespace

HandlerPlan PlanFixedSizeHandler(const ::mediapipe::MediaPipeOptions& options, const Contract& contract) {
  const auto& settings = options.GetExtension(::mediapipe::FixedSizeInputStreamHandlerOptions::ext);
  const int32_t trigger = settings.trigger_queue_size();
  const int32_t target = settings.target_queue_size();
  if (trigger < 1 || target < 1) {
    return InvalidArgumentError(
        "trigger_queue_size and target_queue_size of FixedSizeInputStreamHandler are " +
        std::to_string(trigger) + " and " + std::to_string(target) + "; expected 1 or more");
  }
  return HandlerPlan(std::make_shared<const FixedSizePlan>(
      SyncSet::Of(contract),
      FixedSize{static_cast<size_t>(trigger), static_cast<size_t>(target), settings.fixed_min_size()}));
}

}  // namespace braid::graph
