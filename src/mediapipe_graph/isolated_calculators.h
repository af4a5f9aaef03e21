// Calculators in native workers (--isolate=calculators): the server's side, where each calculator of a graph
// stands for one in the worker. The worker's side is CalculatorHost.
//
// The calculator object exists in the worker from Open() to Close(); each call here is a call there. Packets
// are carried by value. A packet that comes back unchanged is again the server's own, so a calculator can
// pass on a value that messages cannot carry. An object of the library (BRAID_OBJECT) stays in the worker,
// and its packets keep it alive there.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/status.h"
#include "graph/registry.h"
#include "tensor/tensor.h"

namespace braid {

// A library in a worker.
struct IsolatedCalculators {
  std::vector<std::string> names;
  // Calls CalculatorHost::Call() in the worker; any thread; blocks. Errors: those of Call(); INTERNAL when
  // the worker has died during the call.
  std::function<Result<std::vector<Tensor>>(std::vector<Tensor> inputs)> call;
};
// Starts a worker for the library at a path. Errors: those of AddCalculatorLibrary(); the worker has died.
using OpenIsolatedCalculators = std::function<Result<IsolatedCalculators>(const std::string& path)>;

// Returns the library's calculators, by name.
std::vector<std::pair<std::string, graph::CalculatorKind>> IsolatedKinds(IsolatedCalculators library);

}  // namespace braid
