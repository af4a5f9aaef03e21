// Libraries of calculators that users bring (include/braid_calculator.h), as calculators of the graph engine.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "graph/registry.h"
#include "mediapipe_graph/isolated_calculators.h"

namespace braid {

// Opens the library, for as long as the process lives, and adds its calculators. Errors: INVALID_ARGUMENT
// when it cannot be opened, has no entry, was made for another version of the interface, or has a calculator
// whose name is taken; nothing is added then. Runs code of the library.
Status AddCalculatorLibrary(const std::string& path, graph::CalculatorRegistry& registry);

// The calculators that graphs of a server can use: MediaPipe's, those of OpenVINO Model Server, and those of libraries. With `open`,
// libraries are not loaded here, but run where that starts them. Errors: as above.
Result<std::shared_ptr<const graph::CalculatorRegistry>> MakeCalculators(
    const std::vector<std::string>& libraries, const OpenIsolatedCalculators& open = {});

}  // namespace braid
