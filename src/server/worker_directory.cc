#include "server/worker_directory.h"

#include <filesystem>
#include <system_error>

namespace braid {

Result<std::string> FindProgram() {
  std::error_code error;
  const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe", error);
  if (error) return InternalError("cannot find the program's own path: " + error.message());
  return program.string();
}

Result<std::string> FindWorkerDirectory() {
  BRAID_ASSIGN_OR_RETURN(const std::filesystem::path program, FindProgram());
  std::error_code error;
  for (const char* place : {"worker", "../lib/braid/worker"}) {
    const std::filesystem::path candidate = program.parent_path() / place;
    if (std::filesystem::exists(candidate / "triton_python_backend_utils.py", error)) {
      return std::filesystem::weakly_canonical(candidate, error).string();
    }
  }
  return NotFoundError("the worker's files are missing: no 'worker' folder next to '" + program.string() +
                       "'");
}

}  // namespace braid
