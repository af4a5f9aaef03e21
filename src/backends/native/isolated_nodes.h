// Libraries of custom nodes that run in native workers (--isolate=custom-nodes): a worker for each node that uses one.
#pragma once

#include <memory>
#include <string>

#include "backends/native/native_workers.h"
#include "pipeline/custom_node_library.h"

namespace braid {

// As CustomNodeLibrary::Open(), in a worker that ends with it; the server does not load the library. Nodes are started by
// CodeFor(), each in a worker of its own, where up to `most_calls` of its executions run at once. What a library keeps in
// variables of its own is not shared between nodes then. An execution that its worker dies with fails with
// kNodeLibraryExecutionFailed. `workers` outlives the library and its nodes. Errors: as of Open(); the worker died.
Result<std::shared_ptr<const CustomNodeLibrary>> OpenIsolatedLibrary(NativeWorkers& workers,
                                                                     const std::string& name,
                                                                     const std::string& path,
                                                                     uint32_t most_calls);

}  // namespace braid
