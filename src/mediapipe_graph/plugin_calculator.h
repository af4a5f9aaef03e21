// A calculator of a users' library as one of the graph engine: what its functions are told, and what they
// ask.
#pragma once

#include <memory>

#include "graph/registry.h"
#include "include/braid_calculator.h"

namespace braid {

// `functions` are in the library that `library` keeps open.
graph::CalculatorKind PluginKind(const BraidCalculator& functions, std::shared_ptr<void> library);

}  // namespace braid
