// BarrierInputStreamHandler: the node runs when each input has a packet, at any time. It is closed when one
// input has ended.
#include <algorithm>

#include "graph/handlers/handler_kinds.h"

namespace braid::graph {
namespace {

class BarrierHandler final : public InputHandler {
 public:
  HandlerStep Next(NodeInputs& inputs) override {
    Timestamp first = Timestamp::Done();
    Timestamp next = Timestamp::Done();
    bool complete = true;
    for (int input = 0; input < inputs.size(); ++input) {
      if (inputs.done(input)) return {HandlerStep::Kind::kClose, Timestamp::Done()};
      next = std::min(next, inputs.Next(input));
      if (inputs.queue(input).empty()) {
        complete = false;
      } else {
        first = std::min(first, inputs.queue(input).front().timestamp());
      }
    }
    if (!complete) return {HandlerStep::Kind::kWait, next};
    for (int input = 0; input < inputs.size(); ++input) inputs.Take(input);
    return {HandlerStep::Kind::kProcess, first};
  }
};

class BarrierPlan final : public InputHandlerPlan {
 public:
  std::unique_ptr<InputHandler> Make() const override { return std::make_unique<BarrierHandler>(); }
  bool keeps_time() const override { return false; }
};

}  // namespace

HandlerPlan PlanBarrierHandler(const ::mediapipe::MediaPipeOptions&, const Contract&) {
  return HandlerPlan(std::make_shared<const BarrierPlan>());
}

}  // namespace braid::graph
