// ConstantSidePacketCalculator: the values of its options become the side packets PACKET:0, PACKET:1, ...
#include <cstdint>
#include <string>

#include "graph/calculators/core_calculators.h"
#include "mediapipe/core_calculators.pb.h"

namespace braid::graph {
namespace {

using Options = ::mediapipe::ConstantSidePacketCalculatorOptions;
using Constant = Options::ConstantSidePacket;

// Empty when `constant` has no value.
Packet PacketOf(const Constant& constant) {
  switch (constant.value_case()) {
    case Constant::kIntValue:
      return Packet::Of<int>(constant.int_value());
    case Constant::kFloatValue:
      return Packet::Of<float>(constant.float_value());
    case Constant::kBoolValue:
      return Packet::Of<bool>(constant.bool_value());
    case Constant::kStringValue:
      return Packet::Of<std::string>(constant.string_value());
    case Constant::kUint64Value:
      return Packet::Of<uint64_t>(constant.uint64_value());
    case Constant::kDoubleValue:
      return Packet::Of<double>(constant.double_value());
    case Constant::kInt64Value:
      return Packet::Of<int64_t>(constant.int64_value());
    case Constant::VALUE_NOT_SET:
      break;
  }
  return Packet();
}

PortType TypeOf(const Constant& constant) {
  switch (constant.value_case()) {
    case Constant::kIntValue:
      return PortType::Of<int>();
    case Constant::kFloatValue:
      return PortType::Of<float>();
    case Constant::kBoolValue:
      return PortType::Of<bool>();
    case Constant::kStringValue:
      return PortType::Of<std::string>();
    case Constant::kUint64Value:
      return PortType::Of<uint64_t>();
    case Constant::kDoubleValue:
      return PortType::Of<double>();
    case Constant::kInt64Value:
      return PortType::Of<int64_t>();
    case Constant::VALUE_NOT_SET:
      break;
  }
  return PortType::Any();
}

class ConstantSidePacketCalculator final : public Calculator {
 public:
  static Status FillContract(Contract& contract) {
    const Options options = contract.FindOptions<Options>().value_or(Options());
    const int count = contract.output_side_packets().Count("PACKET");
    if (count != options.packet_size()) {
      return InvalidArgumentError("it has " + std::to_string(count) + " output_side_packet PACKET, and " +
                                  std::to_string(options.packet_size()) + " packet in its options");
    }
    for (int i = 0; i < count; ++i) {
      if (options.packet(i).value_case() == Constant::VALUE_NOT_SET) {
        return InvalidArgumentError("packet " + std::to_string(i) + " of its options has no value");
      }
      contract.SetOutputSidePacket(contract.output_side_packets().Find("PACKET", i),
                                   TypeOf(options.packet(i)));
    }
    contract.SetQuick();
    return OkStatus();
  }

  Status Open(Context& context) override {
    const Contract& contract = context.contract();
    const Options options = contract.FindOptions<Options>().value_or(Options());
    for (int i = 0; i < options.packet_size(); ++i) {
      context.SetOutputSidePacket(contract.output_side_packets().Find("PACKET", i),
                                  PacketOf(options.packet(i)));
    }
    return OkStatus();
  }

  Status Process(Context& context) override {
    static_cast<void>(context);
    return StopStatus();
  }
};

}  // namespace

CalculatorKind ConstantSidePacketCalculatorKind() { return KindOf<ConstantSidePacketCalculator>(); }

}  // namespace braid::graph
