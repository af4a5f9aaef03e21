#include "server/worker_directory.h"

#include <filesystem>

#include "base/program_files.h"

namespace braid {

Result<std::string> FindWorkerDirectory() {
  constexpr const char* kFile = "worker/triton_python_backend_utils.py";
  auto file = FindProgramFile(kFile, kFile);
  if (!file.ok()) return NotFoundError("the worker's files are missing: " + file.status().message());
  return std::filesystem::path(*file).parent_path().string();
}

}  // namespace braid
