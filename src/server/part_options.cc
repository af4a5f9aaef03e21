#include "server/part_options.h"

#include <algorithm>
#include <filesystem>

#include "config/config_json.h"
#include "config/storage_url.h"

namespace braid {

std::vector<std::string> ExtensionNames(const ServerOptions& options) {
  // OpenVINO Model Server lists none.
  if (options.folders.model_repositories.empty()) return {};
  return {"classification",
          "sequence",
          "model_repository",
          "schedule_policy",
          "model_configuration",
          "system_shared_memory",
          "cuda_shared_memory",
          "binary_tensor_data",
          "parameters",
          "statistics",
          "logging",
          "trace"};
}

GpuPlacement PlacementOf(const std::vector<GpuDevice>& gpus, const ServerOptions& options) {
  GpuPlacement placement;
  for (const GpuDevice& gpu : gpus) placement.gpus.push_back(gpu.id);
  placement.cpu_stands_in = options.gpu_fallback == GpuFallback::kCpu;
  placement.least_capability = options.min_supported_compute_capability;
  return placement;
}

std::vector<std::string> RootsOfErrors(const ServerOptions& options) {
  std::vector<std::filesystem::path> folders;
  for (const std::string& repository : options.folders.model_repositories) {
    if (!IsUrl(repository)) folders.emplace_back(repository);
  }
  if (!options.config.config_path.empty()) {
    folders.push_back(std::filesystem::absolute(options.config.config_path).parent_path());
  }
  folders.emplace_back(options.folders.backend_directory);
  std::vector<std::string> roots;
  for (const auto& folder : folders) {
    std::error_code error;
    roots.push_back(std::filesystem::absolute(folder, error).lexically_normal().string());
    roots.push_back(std::filesystem::weakly_canonical(folder, error).string());
  }
  return roots;
}

Result<ManagerOptions> MakeManagerOptions(const ServerOptions& options) {
  ManagerOptions manager;
  manager.exit_timeout_seconds = static_cast<int>(options.exit_timeout_secs);
  manager.load_thread_count = static_cast<int>(options.model_load_thread_count);
  manager.watch = options.watch;
  if (!options.folders.model_repositories.empty()) {
    manager.folders = options.folders;
    manager.folders->temporary_directory = options.environment.temporary_directory;
  }
  if (options.serves_config()) {
    manager.config = options.config;
    if (options.watch) manager.config->poll_seconds = 0;
    if (options.config.config_path.empty()) {
      std::error_code error;
      const std::filesystem::path here = std::filesystem::current_path(error);
      BRAID_ASSIGN_OR_RETURN(manager.config->single_model,
                             ModelConfigFromOptions(options.model_settings, here.string()));
    }
  }
  return manager;
}

}  // namespace braid
