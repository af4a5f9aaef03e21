// The places of files that belong to the program: beside it in a build, in ../lib/braid in an installation.
#pragma once

#include <string>

#include "base/status.h"

namespace braid {

// Returns the path of this program. Errors: INTERNAL.
Result<std::string> FindProgram();

// Returns the path of the file or folder `built` beside the program, or else of `installed` in ../lib/braid.
// Errors: NOT_FOUND, INTERNAL.
Result<std::string> FindProgramFile(const std::string& built, const std::string& installed);

}  // namespace braid
