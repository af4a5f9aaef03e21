// PacketClonerCalculator: outputs the latest packets of the other inputs at each packet at TICK (or at the
// last input, without that tag), at the time of the tick.
#include <vector>

#include "graph/calculators/core_calculators.h"
#include "mediapipe/core_calculators.pb.h"

namespace braid::graph {
namespace {

using PacketClonerOptions = ::mediapipe::PacketClonerCalculatorOptions;

class PacketClonerCalculator final : public Calculator {
 public:
  static Status FillContract(Contract& contract) {
    const Ports& inputs = contract.inputs();
    const int tick = TickOf(inputs);
    const int streams = tick;  // TICK comes after those without a tag
    if (tick < 0) return InvalidArgumentError("it needs the input_stream TICK");
    if (contract.outputs().Count("") != streams) {
      return InvalidArgumentError("it has " + std::to_string(streams) +
                                  " input_stream without a tag besides TICK, and " +
                                  std::to_string(contract.outputs().Count("")) + " output_stream");
    }
    for (int i = 0; i < streams; ++i) {
      contract.SetInput(i, PortType::Any());
      contract.SetOutput(i, PortType::SameAsInput(i));
    }
    contract.SetInput(tick, PortType::Any());
    contract.SetTimestampOffset(0);
    contract.SetQuick();
    return OkStatus();
  }

  Status Open(Context& context) override {
    const PacketClonerOptions options =
        context.contract().FindOptions<PacketClonerOptions>().value_or(PacketClonerOptions());
    all_or_none_ = options.output_only_when_all_inputs_received() ||
                   options.output_packets_only_when_all_inputs_received();
    tick_ = TickOf(context.contract().inputs());
    latest_.resize(static_cast<size_t>(tick_));
    return OkStatus();
  }

  Status Process(Context& context) override {
    bool all = true;
    for (int i = 0; i < tick_; ++i) {
      Packet& latest = latest_[static_cast<size_t>(i)];
      if (!context.Input(i).empty()) latest = context.Input(i);
      all = all && !latest.empty();
    }
    if (context.Input(tick_).empty() || (all_or_none_ && !all)) return OkStatus();
    for (int i = 0; i < tick_; ++i) {
      const Packet& latest = latest_[static_cast<size_t>(i)];
      if (!latest.empty()) context.Output(i, latest.At(context.input_timestamp()));
    }
    return OkStatus();
  }

 private:
  static int TickOf(const Ports& inputs) {
    const int tick = inputs.Find("TICK");
    return tick >= 0 ? tick : inputs.Count("") - 1;
  }

  bool all_or_none_ = false;
  int tick_ = 0;  // the port; also the number of streams
  std::vector<Packet> latest_;
};

}  // namespace

CalculatorKind PacketClonerCalculatorKind() { return KindOf<PacketClonerCalculator>(); }

}  // namespace braid::graph
