#include "server/options_python.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <optional>
#include <string_view>

#include <spdlog/fmt/fmt.h>

namespace braid {
namespace {

bool IsProgram(const std::string& path) {
  struct stat status;
  return stat(path.c_str(), &status) == 0 && S_ISREG(status.st_mode) && access(path.c_str(), X_OK) == 0;
}

std::optional<std::string> FindOnPath(std::string_view name, std::string_view path) {
  std::string_view rest = path;
  while (!rest.empty()) {
    size_t colon = std::min(rest.find(':'), rest.size());
    std::string candidate = fmt::format("{}/{}", colon == 0 ? "." : rest.substr(0, colon), name);
    if (IsProgram(candidate)) return candidate;
    rest.remove_prefix(std::min(colon + 1, rest.size()));
  }
  return std::nullopt;
}

}  // namespace

Result<PythonChoice> ResolvePython(const ServerOptions& options) {
  const Environment& environment = options.environment;
  if (!options.workers.python.empty()) {
    if (options.workers.python.find('/') != std::string::npos) {
      if (IsProgram(options.workers.python)) return PythonChoice{options.workers.python, "--python"};
    } else if (auto found = FindOnPath(options.workers.python, environment.path)) {
      return PythonChoice{*found, "--python"};
    }
    return NotFoundError(fmt::format(
        "--python {} is not a program; give the path of a Python 3.11 or newer, such as /usr/bin/python3",
        options.workers.python));
  }
  if (!environment.virtual_env.empty()) {
    for (const char* name : {"python3", "python"}) {
      std::string path = fmt::format("{}/bin/{}", environment.virtual_env, name);
      if (IsProgram(path)) return PythonChoice{path, "VIRTUAL_ENV"};
    }
    return NotFoundError(
        fmt::format("VIRTUAL_ENV is {}, which has no bin/python3; activate an environment that exists, unset "
                    "VIRTUAL_ENV, or name an interpreter with --python",
                    environment.virtual_env));
  }
  if (auto found = FindOnPath("python3", environment.path)) return PythonChoice{*found, "PATH"};
  return NotFoundError(
      "no python3 on the PATH; install Python 3.11 or newer, or name an interpreter with --python PATH");
}

}  // namespace braid
