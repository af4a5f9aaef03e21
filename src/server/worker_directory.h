// The location of the worker files that belong to the program.
#pragma once

#include <string>

#include "base/status.h"

namespace braid {

// Returns the folder next to the program in a build, or under lib/ in an installation. Errors: NOT_FOUND.
Result<std::string> FindWorkerDirectory();

}  // namespace braid
