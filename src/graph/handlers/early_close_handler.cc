// EarlyCloseInputStreamHandler: like the default, but the node is closed as soon as one input has ended.
#include "graph/handlers/handler_kinds.h"
#include "graph/handlers/sync_set.h"

namespace braid::graph {
namespace {

class EarlyCloseHandler final : public InputHandler {
 public:
  explicit EarlyCloseHandler(SyncSet set) : set_(std::move(set)) {}

  HandlerStep Next(NodeInputs& inputs) override {
    for (int input = 0; input < inputs.size(); ++input) {
      if (inputs.done(input)) return {HandlerStep::Kind::kClose, Timestamp::Done()};
    }
    const HandlerStep step = set_.Look(inputs);
    if (step.kind == HandlerStep::Kind::kProcess) set_.Take(inputs, step.timestamp);
    return step;
  }

 private:
  SyncSet set_;
};

class EarlyClosePlan final : public InputHandlerPlan {
 public:
  explicit EarlyClosePlan(SyncSet set) : set_(std::move(set)) {}
  std::unique_ptr<InputHandler> Make() const override { return std::make_unique<EarlyCloseHandler>(set_); }

 private:
  SyncSet set_;
};

}  // namespace

HandlerPlan PlanEarlyCloseHandler(const ::mediapipe::MediaPipeOptions&, const Contract& contract) {
  return HandlerPlan(std::make_shared<const EarlyClosePlan>(SyncSet::Of(contract)));
}

}  // namespace braid::graph
