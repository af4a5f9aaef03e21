// MuxInputStreamHandler: each packet at the last input, SELECT, selects the input whose packet of the same
// time is taken. Earlier packets at the other inputs are dropped.
#include <string>

#include "graph/handlers/handler_kinds.h"

namespace braid::graph {
namespace {

class MuxHandler final : public InputHandler {
 public:
  HandlerStep Next(NodeInputs& inputs) override {
    const int control = inputs.size() - 1;
    if (inputs.done(control)) return {HandlerStep::Kind::kClose, Timestamp::Done()};
    const Timestamp at = inputs.Next(control);
    if (inputs.queue(control).empty()) return {HandlerStep::Kind::kWait, at};
    const int* chosen = inputs.queue(control).front().GetIf<int>();
    if (chosen == nullptr || *chosen < 0 || *chosen >= control) {
      HandlerStep step{HandlerStep::Kind::kFail, at};
      step.error = InvalidArgumentError(
          "SELECT has " +
          (chosen != nullptr ? std::to_string(*chosen) : std::string("a value that is not an int")) + " at " +
          at.DebugString() + "; expected an input number from 0 to " + std::to_string(control - 1));
      return step;
    }
    while (!inputs.queue(*chosen).empty() && inputs.queue(*chosen).front().timestamp() < at) {
      inputs.Drop(*chosen);
    }
    // Its packet may still come.
    if (inputs.queue(*chosen).empty() && inputs.bound(*chosen) <= at) return {HandlerStep::Kind::kWait, at};
    const int data = *chosen;
    inputs.Take(control);
    if (inputs.Next(data) == at && !inputs.queue(data).empty()) inputs.Take(data);
    for (int input = 0; input < control; ++input) {
      while (!inputs.queue(input).empty() && inputs.queue(input).front().timestamp() <= at)
        inputs.Drop(input);
    }
    return {HandlerStep::Kind::kProcess, at};
  }
};

class MuxPlan final : public InputHandlerPlan {
 public:
  std::unique_ptr<InputHandler> Make() const override { return std::make_unique<MuxHandler>(); }
};

}  // namespace

HandlerPlan PlanMuxHandler(const ::mediapipe::MediaPipeOptions&, const Contract& contract) {
  const Ports& inputs = contract.inputs();
  if (inputs.size() < 2 || inputs[inputs.size() - 1].tag != "SELECT" || inputs.Count("SELECT") != 1) {
    return InvalidArgumentError(
        "MuxInputStreamHandler needs inputs INPUT:0, INPUT:1, ... and one SELECT, which must sort last by "
        "tag");
  }
  const std::optional<PortType>& type = contract.input_types()[static_cast<size_t>(inputs.size() - 1)];
  if (type && type->kind() == PortType::Kind::kValue && !(*type->value_type() == ValueType::Of<int>())) {
    return InvalidArgumentError("MuxInputStreamHandler needs ints at SELECT; the node takes " +
                                type->value_type()->name());
  }
  return HandlerPlan(std::make_shared<const MuxPlan>());
}

}  // namespace braid::graph
