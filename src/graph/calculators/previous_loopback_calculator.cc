// PreviousLoopbackCalculator: at each packet of MAIN, PREV_LOOP gets the packet that LOOP had at the time of
// MAIN's previous packet. LOOP depends on this node's own output, so it is a back edge.
#include <deque>

#include "graph/calculators/core_calculators.h"

namespace braid::graph {
namespace {

class PreviousLoopbackCalculator final : public Calculator {
 public:
  static Status FillContract(Contract& contract) {
    const int main = contract.inputs().Find("MAIN");
    const int loop = contract.inputs().Find("LOOP");
    const int previous = contract.outputs().Find("PREV_LOOP");
    if (main < 0) return InvalidArgumentError("it needs the input_stream MAIN");
    if (loop < 0) return InvalidArgumentError("it needs the input_stream LOOP");
    if (previous < 0) return InvalidArgumentError("it needs the output_stream PREV_LOOP");
    contract.SetInput(main, PortType::Any());
    contract.SetInput(loop, PortType::Any());
    contract.SetOutput(previous, PortType::SameAsInput(loop));
    contract.SetInputStreamHandler("ImmediateInputStreamHandler");
    contract.SetProcessTimestampBounds();
    contract.SetQuick();
    return OkStatus();
  }

  Status Open(Context& context) override {
    main_ = context.contract().inputs().Find("MAIN");
    loop_ = context.contract().inputs().Find("LOOP");
    return OkStatus();
  }

  Status Process(Context& context) override {
    if (!context.Input(main_).empty()) {
      const Timestamp at = context.Input(main_).timestamp();
      pending_.push_back({at, last_main_});
      last_main_ = at;
    }
    if (!context.Input(loop_).empty()) loops_.push_back(context.Input(loop_));

    while (!pending_.empty() && SettledInLoop(context, pending_.front().previous)) {
      const Pending next = pending_.front();
      pending_.pop_front();
      while (!loops_.empty() && loops_.front().timestamp() < next.previous) loops_.pop_front();
      if (!loops_.empty() && loops_.front().timestamp() == next.previous) {
        context.Output(0, loops_.front().At(next.at));
        loops_.pop_front();
      } else {
        context.SetNextTimestampBound(0, next.at.NextAllowedInStream());
      }
    }
    if (pending_.empty() && SettledInLoop(context, last_main_)) {
      const Timestamp bound = context.InputBound(main_);
      if (bound == Timestamp::Done()) {
        context.CloseOutput(0);
      } else {
        context.SetNextTimestampBound(0, bound);
      }
    }
    return OkStatus();
  }

 private:
  // A packet of MAIN that waits for LOOP at the time of the previous packet.
  struct Pending {
    Timestamp at;
    Timestamp previous;  // Unset() for the first
  };

  // Whether LOOP is settled at that time.
  bool SettledInLoop(const Context& context, Timestamp at) const {
    return context.InputBound(loop_) > at || (!loops_.empty() && loops_.back().timestamp() >= at);
  }

  int main_ = 0;
  int loop_ = 0;
  Timestamp last_main_;
  std::deque<Pending> pending_;
  std::deque<Packet> loops_;
};

}  // namespace

CalculatorKind PreviousLoopbackCalculatorKind() { return KindOf<PreviousLoopbackCalculator>(); }

}  // namespace braid::graph
