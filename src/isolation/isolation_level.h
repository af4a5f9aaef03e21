// How far a process of a model is kept from the rest of the machine. Each level has what those before it have.
//
//   none      it can do what the server can do
//   basic     nothing that a model does is refused, but the server and the other workers are out of its reach
//   strict    besides, it has a short list of environment variables, reads its interpreter and its model alone, writes
//             into a folder of its own, and has no network
//   separate  besides, it has a user, a process table, a network, shared memory and mounts of its own
#pragma once

#include <string_view>

#include "base/status.h"

namespace braid {

enum class IsolationLevel : unsigned char { kNone, kBasic, kStrict, kSeparate };

std::string_view IsolationLevelName(IsolationLevel level);

// Errors: INVALID_ARGUMENT, which lists the names.
Result<IsolationLevel> ParseIsolationLevel(std::string_view name);

}  // namespace braid
