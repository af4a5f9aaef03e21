// From the operator's options to those of each part of the server.
#pragma once

#include <string>
#include <vector>

#include "base/status.h"
#include "repository/config_repository.h"
#include "repository/model_repository.h"
#include "server/options.h"

namespace braid {

RepositoryOptions MakeRepositoryOptions(const ServerOptions& options);
// REQUIRES: options.serves_config(). Errors: INVALID_ARGUMENT for settings of the one model.
Result<ConfigRepositoryOptions> MakeConfigOptions(const ServerOptions& options);

// The folders that errors name paths relative to.
std::vector<std::string> RootsOfErrors(const ServerOptions& options);

// What the server's metadata names as extensions of KServe's protocol.
std::vector<std::string> ExtensionNames(const ServerOptions& options);

}  // namespace braid
