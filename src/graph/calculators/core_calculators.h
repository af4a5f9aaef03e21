// The calculators of MediaPipe's core that are built in, each with the names, tags, options and behaviour
// that it has there (docs/graphs-calculators.md). One function for each; see core_calculators.cc for their
// names.
#pragma once

#include "graph/registry.h"

namespace braid::graph {

CalculatorKind ConstantSidePacketCalculatorKind();
CalculatorKind FlowLimiterCalculatorKind();
CalculatorKind GateCalculatorKind();
CalculatorKind MergeCalculatorKind();
CalculatorKind PacketClonerCalculatorKind();
CalculatorKind PacketPresenceCalculatorKind();
CalculatorKind PassThroughCalculatorKind();
CalculatorKind PreviousLoopbackCalculatorKind();
CalculatorKind SidePacketToStreamCalculatorKind();

// The kind of a class that has FillContract().
template <class C>
CalculatorKind KindOf() {
  return CalculatorKind{[](Contract& contract) { return C::FillContract(contract); },
                        [] { return std::make_unique<C>(); }};
}

}  // namespace braid::graph
