// From the operator's options to those of each part of the server.
#pragma once

#include <string>
#include <vector>

#include "base/status.h"
#include "gpu/devices.h"
#include "repository/manager_options.h"
#include "server/options.h"
#include "serving/gpu_placement.h"

namespace braid {

// Errors: INVALID_ARGUMENT for settings of the one model in a config.json's place.
Result<ManagerOptions> MakeManagerOptions(const ServerOptions& options);

// The folders that errors name paths relative to.
std::vector<std::string> RootsOfErrors(const ServerOptions& options);

// Where Python models are placed.
GpuPlacement PlacementOf(const std::vector<GpuDevice>& gpus, const ServerOptions& options);

// What the server's metadata names as extensions of KServe's protocol.
std::vector<std::string> ExtensionNames(const ServerOptions& options);

}  // namespace braid
