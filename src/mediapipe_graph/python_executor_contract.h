// The contract of a PythonExecutorCalculator's node.
#pragma once

#include <string_view>

#include "base/status.h"
#include "graph/calculator.h"

namespace braid {

inline constexpr std::string_view kLoopbackTag = "LOOPBACK";

// Checks the node's streams and gives its ports their types: LOOPBACK is a bool, all others are tensors.
// Errors: INVALID_ARGUMENT with all faults, one per line.
Status FillPythonExecutorContract(graph::Contract& contract);

}  // namespace braid
