// What the environment of the process decides: which interpreter runs models that name no environment of
// their own, and where temporary files lie.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "base/status.h"
#include "server/options.h"

namespace braid {

struct PythonChoice {
  std::string path;    // as found, symbolic links kept: a virtual environment is known by its own bin/python3
  std::string origin;  // "--python", "VIRTUAL_ENV" or "PATH"
};

// Looks a variable of the environment up.
using Environment = std::function<std::optional<std::string>(std::string_view name)>;
// The environment of this process.
Environment ProcessEnvironment();

// --python, else bin/python3 of $VIRTUAL_ENV, else python3 on $PATH. A --python without a slash is looked up
// on $PATH. The interpreter's version is not looked at here. Fails with NOT_FOUND and a text that says what
// to do.
Result<PythonChoice> ResolvePython(const ServerOptions& options, const Environment& environment);

// Where temporary files lie: $TMPDIR, made absolute, else /tmp.
std::string TemporaryDirectory(const Environment& environment);

}  // namespace braid
