// ImmediateInputStreamHandler: the node runs with the packets that are there, each input by itself. It runs
// once more when an input has ended and, if it processes timestamp bounds, whenever one has moved.
#include <algorithm>
#include <utility>
#include <vector>

#include "graph/handlers/handler_kinds.h"

namespace braid::graph {
namespace {

class ImmediateHandler final : public InputHandler {
 public:
  ImmediateHandler(int inputs, bool bounds)
      : ended_(static_cast<size_t>(inputs)),
        bounds_(bounds ? static_cast<size_t>(inputs) : 0, Timestamp::Min()) {}

  HandlerStep Next(NodeInputs& inputs) override {
    Timestamp first = Timestamp::Done();  // of the waiting packets
    Timestamp next = Timestamp::Done();
    bool all_done = true;
    for (int input = 0; input < inputs.size(); ++input) {
      next = std::min(next, inputs.Next(input));
      if (!inputs.queue(input).empty()) first = std::min(first, inputs.queue(input).front().timestamp());
      if (!inputs.done(input)) {
        all_done = false;
      } else if (!ended_[static_cast<size_t>(input)]) {
        ended_[static_cast<size_t>(input)] = true;
        told_ = false;
      }
    }
    NoteBounds(inputs);
    if (first < Timestamp::Done()) {
      for (int input = 0; input < inputs.size(); ++input) {
        if (!inputs.queue(input).empty()) inputs.Take(input);
      }
      return {HandlerStep::Kind::kProcess, first};
    }
    if (!told_) {
      told_ = true;
      if (bounds_.empty()) return {HandlerStep::Kind::kProcess, Timestamp::Done()};
      // The last time that all inputs have settled, if there is one.
      Timestamp settled = next == Timestamp::Done() ? next : Timestamp::Unstarted();
      if (next.IsRangeValue() && next > Timestamp::Min()) settled = Timestamp(next.value() - 1);
      return {HandlerStep::Kind::kProcess, settled};
    }
    return {all_done ? HandlerStep::Kind::kClose : HandlerStep::Kind::kWait, next};
  }

 private:
  // A bound that has moved without a packet must be reported to the node.
  void NoteBounds(const NodeInputs& inputs) {
    for (size_t input = 0; input < bounds_.size(); ++input) {
      const Timestamp bound = inputs.bound(static_cast<int>(input));
      if (bound > bounds_[input] && inputs.queue(static_cast<int>(input)).empty()) told_ = false;
      bounds_[input] = bound;
    }
  }

  bool told_ = true;               // false: the node must run for an end or a bound
  std::vector<bool> ended_;        // by input: its end has been seen
  std::vector<Timestamp> bounds_;  // by input: the bound that the node knows, if it processes bounds
};

class ImmediatePlan final : public InputHandlerPlan {
 public:
  ImmediatePlan(int inputs, bool bounds) : inputs_(inputs), bounds_(bounds) {}
  std::unique_ptr<InputHandler> Make() const override {
    return std::make_unique<ImmediateHandler>(inputs_, bounds_);
  }

 private:
  int inputs_;
  bool bounds_;
};

}  // namespace

HandlerPlan PlanImmediateHandler(const ::mediapipe::MediaPipeOptions&, const Contract& contract) {
  return HandlerPlan(
      std::make_shared<const ImmediatePlan>(contract.inputs().size(), contract.process_timestamp_bounds()));
}

}  // namespace braid::graph
