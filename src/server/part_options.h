// Converts the operator's options into those of each part of the server.
#pragma once

#include <string>
#include <vector>

#include "base/status.h"
#include "gpu/devices.h"
#include "repository/manager_options.h"
#include "server/options.h"
#include "serving/gpu_placement.h"

namespace braid {

// Errors: INVALID_ARGUMENT for settings of the single model that replaces a config.json.
Result<ManagerOptions> MakeManagerOptions(const ServerOptions& options);

// Returns the folders to which paths in errors are relative.
std::vector<std::string> RootsOfErrors(const ServerOptions& options);

// Returns the placement of Python models.
GpuPlacement PlacementOf(const std::vector<GpuDevice>& gpus, const ServerOptions& options);

// Returns the extensions of KServe's protocol that the server's metadata lists.
std::vector<std::string> ExtensionNames(const ServerOptions& options);

}  // namespace braid
