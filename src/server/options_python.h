// Which interpreter runs models that name no environment of their own.
#pragma once

#include <string>

#include "base/status.h"
#include "server/options.h"

namespace braid {

struct PythonChoice {
  std::string path;    // as found, symbolic links kept: a virtual environment is known by its own bin/python3
  std::string origin;  // "--python", "VIRTUAL_ENV" or "PATH"
};

// --python, else bin/python3 of $VIRTUAL_ENV, else python3 on $PATH. A --python without a slash is looked up
// on $PATH. The interpreter's version is not looked at here. Fails with NOT_FOUND and a text that says what
// to do.
Result<PythonChoice> ResolvePython(const ServerOptions& options);

}  // namespace braid
