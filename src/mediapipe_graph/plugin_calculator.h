// Makes a calculator of the graph engine from the functions of a user's library.
#pragma once

#include "graph/registry.h"
#include "include/braid_calculator.h"

namespace braid {

// REQUIRES: the functions stay loaded.
graph::CalculatorKind PluginKind(const BraidCalculator& functions);

}  // namespace braid
