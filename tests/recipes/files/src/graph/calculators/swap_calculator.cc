// SwapCalculator: passes its first input on to its second output, and its second to its first.
#include "graph/calculators/core_calculators.h"

namespace braid::graph {
namespace {

class SwapCalculator final : public Calculator {
 public:
  static Status FillContract(Contract& contract) {
    if (contract.inputs().size() != 2 || contract.outputs().size() != 2)
      return InvalidArgumentError("SwapCalculator has two inputs and two outputs");
    for (int i = 0; i < 2; ++i) {
      contract.SetInput(i, PortType::Any());
      contract.SetOutput(1 - i, PortType::SameAsInput(i));
    }
    contract.SetTimestampOffset(0);
    return OkStatus();
  }

  Status Process(Context& context) override {
    for (int i = 0; i < 2; ++i) {
      if (!context.Input(i).empty()) context.Output(1 - i, context.Input(i));
    }
    return OkStatus();
  }
};

}  // namespace

CalculatorKind SwapCalculatorKind() { return KindOf<SwapCalculator>(); }

}  // namespace braid::graph
