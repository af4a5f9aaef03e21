// PreviousLoopbackCalculator: at each packet of MAIN, PREV_LOOP gets the packet that LOOP had at the time of
// MAIN's previous packet. LOOP is made from this node's own output further on, so it is a back edge.
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
    if (!context.Input(main_).empty()) Enter(context.Input(main_).timestamp());
    if (context.InputBound(main_) == Timestamp::Done()) Enter(Timestamp::Done());
    if (!context.Input(loop_).empty()) loops_.push_back(context.Input(loop_));

    while (!turns_.empty()) {
      const Turn turn = turns_.front();
      while (!loops_.empty() && loops_.front().timestamp() < turn.previous) loops_.pop_front();
      if (!loops_.empty() && loops_.front().timestamp() == turn.previous) {
        if (turn.at != Timestamp::Done()) context.Output(0, loops_.front().At(turn.at));
        loops_.pop_front();
      } else if (!loops_.empty() || context.InputBound(loop_) > turn.previous) {
        // LOOP has nothing at that time.
        if (turn.at != Timestamp::Done()) context.SetNextTimestampBound(0, turn.at.NextAllowedInStream());
      } else {
        break;
      }
      if (turn.at == Timestamp::Done()) context.CloseOutput(0);
      turns_.pop_front();
    }
    return OkStatus();
  }

 private:
  // A packet of MAIN (or its end) that waits for what LOOP has at the time of the one before.
  struct Turn {
    Timestamp at;
    Timestamp previous;  // Unset() for the first
  };

  void Enter(Timestamp at) {
    if (last_main_ == Timestamp::Done()) return;
    turns_.push_back({at, last_main_});
    last_main_ = at;
  }

  int main_ = 0;
  int loop_ = 0;
  Timestamp last_main_;
  std::deque<Turn> turns_;
  std::deque<Packet> loops_;
};

}  // namespace

CalculatorKind PreviousLoopbackCalculatorKind() { return KindOf<PreviousLoopbackCalculator>(); }

}  // namespace braid::graph
