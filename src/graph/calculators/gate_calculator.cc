// GateCalculator: passes or drops the packets of a time. The stream ALLOW (or DISALLOW) at that time decides,
// or the side packet of that name, or the option `allow`.
#include "graph/calculators/core_calculators.h"
#include "mediapipe/core_calculators.pb.h"

namespace braid::graph {
namespace {

using GateOptions = ::mediapipe::GateCalculatorOptions;

class GateCalculator final : public Calculator {
 public:
  static Status FillContract(Contract& contract) {
    const Ports& inputs = contract.inputs();
    const Ports& side_packets = contract.input_side_packets();
    const bool by_stream = inputs.Has("ALLOW") || inputs.Has("DISALLOW");
    const bool by_side_packet = side_packets.Has("ALLOW") || side_packets.Has("DISALLOW");
    if (by_stream && by_side_packet) {
      return InvalidArgumentError(
          "ALLOW or DISALLOW must be an input_stream or an input_side_packet, not both");
    }
    if ((inputs.Has("ALLOW") && inputs.Has("DISALLOW")) ||
        (side_packets.Has("ALLOW") && side_packets.Has("DISALLOW"))) {
      return InvalidArgumentError("it cannot have both ALLOW and DISALLOW");
    }
    const int streams = inputs.Count("");
    if (contract.outputs().Count("") != streams) {
      return InvalidArgumentError("it has " + std::to_string(streams) + " input_stream without a tag, and " +
                                  std::to_string(contract.outputs().Count("")) + " output_stream");
    }
    for (int i = 0; i < streams; ++i) {
      contract.SetInput(i, PortType::Any());
      contract.SetOutput(i, PortType::SameAsInput(i));
    }
    for (const char* tag : {"ALLOW", "DISALLOW"}) {
      if (const int port = inputs.Find(tag); port >= 0) contract.SetInput(port, PortType::Of<bool>());
      if (const int port = side_packets.Find(tag); port >= 0) {
        contract.SetInputSidePacket(port, PortType::Of<bool>(), /*optional=*/true);
      }
    }
    if (const int port = contract.outputs().Find("STATE_CHANGE"); port >= 0) {
      contract.SetOutput(port, PortType::Of<bool>());
    }
    contract.SetTimestampOffset(0);
    contract.SetQuick();
    return OkStatus();
  }

  Status Open(Context& context) override {
    const Contract& contract = context.contract();
    const GateOptions options = contract.FindOptions<GateOptions>().value_or(GateOptions());
    streams_ = contract.inputs().Count("");
    allow_ = contract.inputs().Find("ALLOW");
    disallow_ = contract.inputs().Find("DISALLOW");
    state_change_ = contract.outputs().Find("STATE_CHANGE");
    without_packet_ = options.empty_packets_as_allow();
    constant_ = options.allow();
    state_ = options.initial_gate_state();
    for (const char* tag : {"ALLOW", "DISALLOW"}) {
      const int port = contract.input_side_packets().Find(tag);
      if (port < 0 || context.InputSidePacket(port).empty()) continue;
      by_side_packet_ = true;
      constant_ = context.InputSidePacket(port).Get<bool>() == (std::string_view(tag) == "ALLOW");
    }
    return OkStatus();
  }

  Status Process(Context& context) override {
    const bool allow = Allows(context);
    const auto state = allow ? GateOptions::GATE_ALLOW : GateOptions::GATE_DISALLOW;
    if (state_change_ >= 0 && state_ != GateOptions::GATE_UNINITIALIZED && state_ != state) {
      context.Output(state_change_, Packet::Of(allow, context.input_timestamp()));
    }
    state_ = state;
    if (!allow) {
      // A side packet never changes.
      for (int i = 0; by_side_packet_ && i < streams_; ++i) context.CloseOutput(i);
      return OkStatus();
    }
    for (int i = 0; i < streams_; ++i) {
      if (!context.Input(i).empty()) context.Output(i, context.Input(i));
    }
    return OkStatus();
  }

 private:
  bool Allows(const Context& context) const {
    if (allow_ >= 0) {
      const Packet& packet = context.Input(allow_);
      return packet.empty() ? without_packet_ : packet.Get<bool>();
    }
    if (disallow_ >= 0) {
      const Packet& packet = context.Input(disallow_);
      return packet.empty() ? without_packet_ : !packet.Get<bool>();
    }
    return constant_;
  }

  int streams_ = 0;
  int allow_ = -1;  // ports; -1: none
  int disallow_ = -1;
  int state_change_ = -1;
  bool without_packet_ = false;
  bool constant_ = false;
  bool by_side_packet_ = false;
  GateOptions::GateState state_ = GateOptions::GATE_UNINITIALIZED;
};

}  // namespace

CalculatorKind GateCalculatorKind() { return KindOf<GateCalculator>(); }

}  // namespace braid::graph
