// Selects the interpreter of models without their own environment.
#pragma once

#include <string>

#include "base/status.h"
#include "server/options.h"

namespace braid {

struct PythonChoice {
  std::string path;  // as found, with symbolic links: a virtual environment is recognised by its bin/python3
  std::string origin;  // "--python", "VIRTUAL_ENV" or "PATH"
};

// Returns --python, otherwise bin/python3 of $VIRTUAL_ENV, otherwise python3 on $PATH. A --python without a
// slash is looked up on $PATH. Does not check the interpreter's version. Errors: NOT_FOUND with a text that
// says how to fix it.
Result<PythonChoice> ResolvePython(const ServerOptions& options);

}  // namespace braid
