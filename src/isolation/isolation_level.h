// IsolationLevel: how far a model's process is isolated from the rest of the machine. Each level includes the
// ones before it.
//
//   none      No isolation: the process can do everything that the server can do.
//
//   basic     The server and other workers are out of reach. The model itself is not restricted.
//
//   strict    A short list of environment variables, and no network. The process can read only its
//             interpreter and its model, and write only into its private folder.
//
//   separate  A private user, process table, network, shared memory and mounts.
#pragma once

#include <string_view>

#include "base/status.h"

namespace braid {

enum class IsolationLevel : unsigned char { kNone, kBasic, kStrict, kSeparate };

std::string_view IsolationLevelName(IsolationLevel level);

// Errors: INVALID_ARGUMENT, with the list of names.
Result<IsolationLevel> ParseIsolationLevel(std::string_view name);

}  // namespace braid
