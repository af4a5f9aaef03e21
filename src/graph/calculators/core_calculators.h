// The built-in calculators of MediaPipe's core, with MediaPipe's names, tags, options and behaviour
// (docs/graphs-calculators.md). Each has one function; core_calculators.cc has their names.
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

// Makes the kind of a class that has FillContract().
template <class C>
CalculatorKind KindOf() {
  return CalculatorKind{[](Contract& contract) { return C::FillContract(contract); },
                        [] { return std::make_unique<C>(); }};
}

}  // namespace braid::graph
