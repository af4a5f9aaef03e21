// ImmediateInputStreamHandler: the node runs with whatever has come, each input by itself. It runs once more
// when an input has come to its end.
#include <algorithm>
#include <utility>
#include <vector>

#include "graph/handlers/handler_kinds.h"

namespace braid::graph {
namespace {

class ImmediateHandler final : public InputHandler {
 public:
  explicit ImmediateHandler(int inputs) : ended_(static_cast<size_t>(inputs)) {}

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
    if (first < Timestamp::Done()) {
      for (int input = 0; input < inputs.size(); ++input) {
        if (!inputs.queue(input).empty()) inputs.Take(input);
      }
      return {HandlerStep::Kind::kProcess, first};
    }
    if (one_ended) return {HandlerStep::Kind::kProcess, Timestamp::Done()};
    return {all_done ? HandlerStep::Kind::kClose : HandlerStep::Kind::kWait, next};
  }

 private:
  std::vector<bool> ended_;  // by input: the node has run for its end
};

class ImmediatePlan final : public InputHandlerPlan {
 public:
  explicit ImmediatePlan(int inputs) : inputs_(inputs) {}
  std::unique_ptr<InputHandler> Make() const override { return std::make_unique<ImmediateHandler>(inputs_); }

 private:
  int inputs_;
};

}  // namespace

HandlerPlan PlanImmediateHandler(const ::mediapipe::MediaPipeOptions&, const Contract& contract) {
  return HandlerPlan(std::make_shared<const ImmediatePlan>(contract.inputs().size()));
}

}  // namespace braid::graph
