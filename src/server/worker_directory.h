// Where the files of workers lie that the program came with.
#pragma once

#include <string>

#include "base/status.h"

namespace braid {

// The path of this program. Errors: INTERNAL.
Result<std::string> FindProgram();

// They lie beside the program in a build, and under lib/ in an installation. Errors: NOT_FOUND.
Result<std::string> FindWorkerDirectory();

}  // namespace braid
