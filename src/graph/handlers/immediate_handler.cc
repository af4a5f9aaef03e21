// ImmediateInputStreamHandler: the node runs with whatever has come, each input by itself. It runs once more
// when an input has come to its end, and, if it processes timestamp bounds, whenever one has moved.
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
    Timestamp first = Timestamp::Done();  // of the packets that are there
    Timestamp next = Timestamp::Done();
    bool all_done = true;
    bool one_ended = false;
    for (int input = 0; input < inputs.size(); ++input) {
      next = std::min(next, inputs.Next(input));
      if (!inputs.queue(input).empty()) first = std::min(first, inputs.queue(input).front().timestamp());
      if (!inputs.done(input)) {
        all_done = false;
      } else if (!ended_[static_cast<size_t>(input)]) {
        ended_[static_cast<size_t>(input)] = true;
        one_ended = true;
      }
    }
    const bool moved = NoteBounds(inputs);
    if (first < Timestamp::Done()) {
      for (int input = 0; input < inputs.size(); ++input) {
        if (!inputs.queue(input).empty()) inputs.Take(input);
      }
      return {HandlerStep::Kind::kProcess, first};
    }
    if (one_ended) return {HandlerStep::Kind::kProcess, Timestamp::Done()};
    // The last time that is settled at all inputs.
    if (moved && next.IsRangeValue() && next > Timestamp::Min()) {
      return {HandlerStep::Kind::kProcess, Timestamp(next.value() - 1)};
    }
    return {all_done ? HandlerStep::Kind::kClose : HandlerStep::Kind::kWait, next};
  }

 private:
  // Whether the bound of an input has moved since the last call.
  bool NoteBounds(const NodeInputs& inputs) {
    bool moved = false;
    for (size_t input = 0; input < bounds_.size(); ++input) {
      const Timestamp bound = inputs.bound(static_cast<int>(input));
      moved = moved || bound > bounds_[input];
      bounds_[input] = bound;
    }
    return moved;
  }

  std::vector<bool> ended_;        // by input: the node has run for its end
  std::vector<Timestamp> bounds_;  // by input: what the node knows; empty when it does not process them
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
