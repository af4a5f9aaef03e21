// Libraries of custom nodes in native workers (--isolate=custom-nodes): one worker for each node.
#pragma once

#include <memory>
#include <string>

#include "backends/native/native_workers.h"
#include "pipeline/custom_node_library.h"

namespace braid {

// Checks the library as CustomNodeLibrary::Open() does, in a worker that ends afterwards; the server does not
// load the library. CodeFor() starts each node in its own worker, with up to `most_calls` executions at once.
// So nodes do not share the library's global variables. If a worker dies, its executions fail with
// kNodeLibraryExecutionFailed. `workers` outlives the library and its nodes. Errors: those of Open(); the
// worker died.
Result<std::shared_ptr<const CustomNodeLibrary>> OpenIsolatedLibrary(NativeWorkers& workers,
                                                                     const std::string& name,
                                                                     const std::string& path,
                                                                     uint32_t most_calls);

}  // namespace braid
