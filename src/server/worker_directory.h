// The location of the worker files that belong to the program.
#pragma once

#include <string>

#include "base/status.h"

namespace braid {

// Returns the path of this program. Errors: INTERNAL.
Result<std::string> FindProgram();

// Returns the folder next to the program in a build, or under lib/ in an installation. Errors: NOT_FOUND.
Result<std::string> FindWorkerDirectory();

}  // namespace braid
