// SidePacketToStreamCalculator: outputs side packets on streams. They come at a fixed time (AT_PRESTREAM,
// AT_POSTSTREAM, AT_ZERO, AT_TIMESTAMP), or at each packet or the first one of TICK (AT_TICK, AT_FIRST_TICK).
#include <cstdint>
#include <string>
#include <string_view>

#include "graph/calculators/core_calculators.h"

namespace braid::graph {
namespace {

constexpr std::string_view kTags[] = {"AT_PRESTREAM", "AT_POSTSTREAM", "AT_ZERO",
                                      "AT_TICK",      "AT_FIRST_TICK", "AT_TIMESTAMP"};

class SidePacketToStreamCalculator final : public Calculator {
 public:
  static Status FillContract(Contract& contract) {
    const Ports& outputs = contract.outputs();
    const Ports& side_packets = contract.input_side_packets();
    const std::string tag = outputs.size() == 0 ? "" : outputs[0].tag;
    bool known = false;
    for (const std::string_view one : kTags) known = known || tag == one;
    if (!known || outputs.Count(tag) != outputs.size()) {
      return InvalidArgumentError(
          "its output_stream must have one of the tags AT_PRESTREAM, AT_POSTSTREAM, AT_ZERO, AT_TICK, "
          "AT_FIRST_TICK and "
          "AT_TIMESTAMP");
    }
    const bool ticks = tag == "AT_TICK" || tag == "AT_FIRST_TICK";
    if (ticks != contract.inputs().Has("TICK")) {
      return InvalidArgumentError(
          "AT_TICK and AT_FIRST_TICK need the input_stream TICK; other tags must not have it");
    }
    const bool at_timestamp = tag == "AT_TIMESTAMP";
    if (at_timestamp != side_packets.Has("TIMESTAMP")) {
      return InvalidArgumentError(
          "AT_TIMESTAMP needs the input_side_packet TIMESTAMP; other tags must not have it");
    }
    if (side_packets.Count("") != outputs.size()) {
      return InvalidArgumentError("it has " + std::to_string(side_packets.Count("")) +
                                  " input_side_packet without a tag, and " + std::to_string(outputs.size()) +
                                  " output_stream");
    }
    for (int i = 0; i < outputs.size(); ++i) {
      contract.SetInputSidePacket(i, PortType::Any());
      contract.SetOutput(i, PortType::Any());
    }
    if (ticks) contract.SetInput(contract.inputs().Find("TICK"), PortType::Any());
    if (at_timestamp) contract.SetInputSidePacket(side_packets.Find("TIMESTAMP"), PortType::Of<int64_t>());
    contract.SetTimestampOffset(0);
    contract.SetQuick();
    return OkStatus();
  }

  Status Open(Context& context) override {
    const Contract& contract = context.contract();
    const std::string& tag = contract.outputs()[0].tag;
    each_tick_ = tag == "AT_TICK";
    ticks_ = each_tick_ || tag == "AT_FIRST_TICK";
    if (tag == "AT_PRESTREAM") at_ = Timestamp::PreStream();
    if (tag == "AT_POSTSTREAM") at_ = Timestamp::PostStream();
    if (tag == "AT_ZERO") at_ = Timestamp(0);
    if (tag == "AT_TIMESTAMP") {
      const int port = contract.input_side_packets().Find("TIMESTAMP");
      at_ = Timestamp(context.InputSidePacket(port).Get<int64_t>());
    }
    return OkStatus();
  }

  Status Process(Context& context) override {
    if (!ticks_) {
      Emit(context, at_);
      return StopStatus();
    }
    if (done_ || context.Input(0).empty()) return OkStatus();
    Emit(context, context.input_timestamp());
    if (each_tick_) return OkStatus();
    done_ = true;
    for (int i = 0; i < context.contract().outputs().size(); ++i) context.CloseOutput(i);
    return OkStatus();
  }

 private:
  static void Emit(Context& context, Timestamp at) {
    for (int i = 0; i < context.contract().outputs().size(); ++i) {
      context.Output(i, context.InputSidePacket(i).At(at));
    }
  }

  bool ticks_ = false;
  bool each_tick_ = false;
  bool done_ = false;
  Timestamp at_;
};

}  // namespace

CalculatorKind SidePacketToStreamCalculatorKind() { return KindOf<SidePacketToStreamCalculator>(); }

}  // namespace braid::graph
