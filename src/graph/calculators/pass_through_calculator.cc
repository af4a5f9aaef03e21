// PassThroughCalculator: passes each input on to the output of the same tag and index, at its time; side
// packets likewise.
#include "graph/calculators/core_calculators.h"

namespace braid::graph {
namespace {

bool SamePorts(const Ports& a, const Ports& b) {
  if (a.size() != b.size()) return false;
  for (int i = 0; i < a.size(); ++i) {
    if (a[i].tag != b[i].tag || a[i].index != b[i].index) return false;
  }
  return true;
}

class PassThroughCalculator final : public Calculator {
 public:
  static Status FillContract(Contract& contract) {
    if (!SamePorts(contract.inputs(), contract.outputs())) {
      return InvalidArgumentError("input_stream and output_stream must have the same tags and indices");
    }
    for (int i = 0; i < contract.inputs().size(); ++i) {
      contract.SetInput(i, PortType::Any());
      contract.SetOutput(i, PortType::SameAsInput(i));
    }
    for (int i = 0; i < contract.input_side_packets().size(); ++i) {
      contract.SetInputSidePacket(i, PortType::Any());
    }
    if (contract.output_side_packets().size() > 0) {
      if (!SamePorts(contract.input_side_packets(), contract.output_side_packets())) {
        return InvalidArgumentError(
            "input_side_packet and output_side_packet must have the same tags and indices");
      }
      for (int i = 0; i < contract.output_side_packets().size(); ++i) {
        contract.SetOutputSidePacket(i, PortType::SameAsInput(i));
      }
    }
    contract.SetTimestampOffset(0);
    contract.SetQuick();
    return OkStatus();
  }

  Status Open(Context& context) override {
    for (int i = 0; i < context.contract().output_side_packets().size(); ++i) {
      context.SetOutputSidePacket(i, context.InputSidePacket(i));
    }
    return OkStatus();
  }

  Status Process(Context& context) override {
    for (int i = 0; i < context.contract().inputs().size(); ++i) {
      if (!context.Input(i).empty()) context.Output(i, context.Input(i));
    }
    return OkStatus();
  }
};

}  // namespace

CalculatorKind PassThroughCalculatorKind() { return KindOf<PassThroughCalculator>(); }

}  // namespace braid::graph
