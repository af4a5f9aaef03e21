// Libraries of calculators that run in native workers (--isolate=calculators): what a graph of the server has in the place of each
// calculator. The other end of it is a CalculatorHost.
//
// A calculator's object is in the worker from Open() to Close(), and each call of it is one of the worker's. Packets are carried there by
// value; one that comes back as it was is the server's own again, so what cannot be carried can be passed on. An object of the library's
// (BRAID_OBJECT) stays in the worker, and packets of it hold it there.
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
  // CalculatorHost::Call() in the worker, any thread; blocks. Errors: its; INTERNAL where the worker has died with the call.
  std::function<Result<std::vector<Tensor>>(std::vector<Tensor> inputs)> call;
};
// Starts a worker for the library at a path. Errors: as of AddCalculatorLibrary(); the worker has died.
using OpenIsolatedCalculators = std::function<Result<IsolatedCalculators>(const std::string& path)>;

// By name.
std::vector<std::pair<std::string, graph::CalculatorKind>> IsolatedKinds(IsolatedCalculators library);

}  // namespace braid
