#include "graph/calculators/core_calculators.h"

namespace braid::graph {

void AddCoreCalculators(CalculatorRegistry& registry) {
  registry.Add("ConstantSidePacketCalculator", ConstantSidePacketCalculatorKind());
  registry.Add("FlowLimiterCalculator", FlowLimiterCalculatorKind());
  registry.Add("GateCalculator", GateCalculatorKind());
  registry.Add("MergeCalculator", MergeCalculatorKind());
  registry.Add("PacketClonerCalculator", PacketClonerCalculatorKind());
  registry.Add("PacketPresenceCalculator", PacketPresenceCalculatorKind());
  registry.Add("PassThroughCalculator", PassThroughCalculatorKind());
  registry.Add("PreviousLoopbackCalculator", PreviousLoopbackCalculatorKind());
  registry.Add("SidePacketToStreamCalculator", SidePacketToStreamCalculatorKind());
}

}  // namespace braid::graph
