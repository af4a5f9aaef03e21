#include "server/part_options.h"

#include <algorithm>
#include <filesystem>

#include "config/config_json.h"

namespace braid {

std::vector<std::string> ExtensionNames(const ServerOptions& options) {
  // OpenVINO Model Server names none.
  if (options.model_repositories.empty()) return {};
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

std::vector<std::string> RootsOfErrors(const ServerOptions& options) {
  std::vector<std::filesystem::path> folders(options.model_repositories.begin(),
                                             options.model_repositories.end());
  if (!options.config_path.empty()) {
    folders.push_back(std::filesystem::absolute(options.config_path).parent_path());
  }
  folders.emplace_back(options.backend_directory);
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
  if (!options.model_repositories.empty()) {
    FolderOptions& folders = manager.folders.emplace();
    folders.temporary_directory = options.environment.temporary_directory;
    folders.model_repositories = options.model_repositories;
    folders.control_mode = options.model_control_mode;
    folders.startup_models = options.startup_models;
    folders.poll_seconds = static_cast<int>(options.repository_poll_secs);
    folders.allow_file_overrides = options.allow_file_overrides;
    folders.model_config_name = options.model_config_name;
    folders.auto_complete = options.auto_complete_config;
    folders.strict_readiness = options.strict_readiness;
    folders.load_retry_count = static_cast<int>(options.model_load_retry_count);
    folders.backend_directory = options.backend_directory;
  }
  if (options.serves_config()) {
    ConfigOptions& config = manager.config.emplace();
    if (options.config_path.empty()) {
      std::error_code error;
      const std::filesystem::path here = std::filesystem::current_path(error);
      BRAID_ASSIGN_OR_RETURN(config.single_model,
                             ModelConfigFromOptions(options.model_settings, here.string()));
    } else {
      config.config_path = options.config_path;
    }
    config.poll_seconds = static_cast<int>(options.file_system_poll_wait_seconds);
    config.watch_graph_files = options.watch_graph_files;
  }
  return manager;
}

}  // namespace braid
