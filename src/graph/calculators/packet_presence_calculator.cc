// PacketPresenceCalculator: PRESENCE is true at the time of each packet at PACKET, and false at times that
// are settled without a packet.
#include "graph/calculators/core_calculators.h"

namespace braid::graph {
namespace {

class PacketPresenceCalculator final : public Calculator {
 public:
  static Status FillContract(Contract& contract) {
    const int packet = contract.inputs().Find("PACKET");
    const int presence = contract.outputs().Find("PRESENCE");
    if (packet < 0) return InvalidArgumentError("it needs the input_stream PACKET");
    if (presence < 0) return InvalidArgumentError("it needs the output_stream PRESENCE");
    contract.SetInput(packet, PortType::Any());
    contract.SetOutput(presence, PortType::Of<bool>());
    contract.SetTimestampOffset(0);
    contract.SetProcessTimestampBounds();
    contract.SetQuick();
    return OkStatus();
  }

  Status Process(Context& context) override {
    const Timestamp at = context.input_timestamp();
    if (at.IsAllowedInStream()) context.Output(0, Packet::Of(!context.Input(0).empty(), at));
    return OkStatus();
  }
};

}  // namespace

CalculatorKind PacketPresenceCalculatorKind() { return KindOf<PacketPresenceCalculator>(); }

}  // namespace braid::graph
