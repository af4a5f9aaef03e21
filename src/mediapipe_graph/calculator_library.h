// Users' libraries of calculators (include/braid_calculator.h), as calculators of the graph engine.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "graph/registry.h"
#include "mediapipe_graph/isolated_calculators.h"

namespace braid {

// Opens the library for the lifetime of the process and adds its calculators. Runs code of the library.
// Errors: INVALID_ARGUMENT when it cannot be opened, has no entry, was made for another version of the
// interface, or has a calculator with an existing name. Nothing is added after an error.
Status AddCalculatorLibrary(const std::string& path, graph::CalculatorRegistry& registry);

// Returns the calculators for a server's graphs: MediaPipe's, those of OpenVINO Model Server, and those of
// libraries. With `open`, libraries are not loaded here: `open` starts a worker for each. Errors: as above.
Result<std::shared_ptr<const graph::CalculatorRegistry>> MakeCalculators(
    const std::vector<std::string>& libraries, const OpenIsolatedCalculators& open = {});

}  // namespace braid
