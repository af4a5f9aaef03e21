// A calculator of a users' library as one of the graph engine: what its functions are told, and what they
// ask.
#pragma once

#include "graph/registry.h"
#include "include/braid_calculator.h"

namespace braid {

// REQUIRES: the functions stay loaded.
graph::CalculatorKind PluginKind(const BraidCalculator& functions);

}  // namespace braid
