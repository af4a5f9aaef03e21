// MergeCalculator: merges several untagged inputs into one output. Of packets at the same time, it outputs
// only the first input's.
#include "graph/calculators/core_calculators.h"

namespace braid::graph {
namespace {

class MergeCalculator final : public Calculator {
 public:
  static Status FillContract(Contract& contract) {
    const int inputs = contract.inputs().Count("");
    if (inputs == 0) return InvalidArgumentError("it needs at least one input_stream without a tag");
    if (!contract.outputs().Has("")) return InvalidArgumentError("it needs an output_stream without a tag");
    for (int i = 0; i < inputs; ++i) contract.SetInput(i, PortType::Any());
    contract.SetOutput(0, PortType::Any());
    contract.SetTimestampOffset(0);
    contract.SetQuick();
    return OkStatus();
  }

  Status Process(Context& context) override {
    for (int i = 0; i < context.contract().inputs().size(); ++i) {
      if (!context.Input(i).empty()) {
        context.Output(0, context.Input(i));
        break;
      }
    }
    return OkStatus();
  }
};

}  // namespace

CalculatorKind MergeCalculatorKind() { return KindOf<MergeCalculator>(); }

}  // namespace braid::graph
