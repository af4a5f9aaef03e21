#include "base/program_files.h"

#include <filesystem>
#include <system_error>

namespace braid {

Result<std::string> FindProgram() {
  std::error_code error;
  const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe", error);
  if (error) return InternalError("cannot find the program's own path: " + error.message());
  return program.string();
}

Result<std::string> FindProgramFile(const std::string& built, const std::string& installed) {
  BRAID_ASSIGN_OR_RETURN(const std::filesystem::path program, FindProgram());
  const std::filesystem::path folder = program.parent_path();
  std::error_code error;
  for (const auto& candidate : {folder / built, folder / "../lib/braid" / installed}) {
    if (std::filesystem::exists(candidate, error))
      return std::filesystem::weakly_canonical(candidate, error).string();
  }
  return NotFoundError("there is no '" + built + "' next to '" + program.string() + "'");
}

}  // namespace braid
