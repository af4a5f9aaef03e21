#include "backends/python/python_backend.h"

#include <sys/stat.h>

#include <csignal>
#include <filesystem>
#include <utility>

#include "backends/python/auto_complete.h"
#include "backends/python/python_model.h"
#include "config/config_json.h"
#include "config/model_config.h"

namespace braid {
namespace {

Status CheckModelFile(const std::string& path) {
  struct stat info {};
  if (stat(path.c_str(), &info) == 0 && S_ISREG(info.st_mode)) return OkStatus();
  return InternalError("Failed to preinitialize Python stub: Python model file not found in '" + path + "'");
}

// "1.model" for a file in the version folder, "model" for a backend's own file.
std::string ModuleName(const ModelLocation& location) {
  const std::filesystem::path file(location.model_file);
  const std::string stem = file.stem().string();
  return file.parent_path() == std::filesystem::path(location.version_path)
             ? std::to_string(location.version) + "." + stem
             : stem;
}

PythonModelFacts Facts(const ModelLocation& location, const inference::ModelConfig& config,
                       uint64_t arena_keep_bytes) {
  PythonModelFacts facts;
  facts.model_file = location.model_file;
  facts.module_name = ModuleName(location);
  facts.model_path = location.model_path;
  facts.version_path = location.version_path;
  facts.model_config_json = ConfigToJson(config);
  facts.model_name = config.name();
  facts.model_version = std::to_string(location.version);
  facts.arena_keep_bytes = arena_keep_bytes;
  return facts;
}

}  // namespace

Result<std::unique_ptr<PythonBackend>> PythonBackend::Create(Options options, Logger& log) {
  BRAID_ASSIGN_OR_RETURN(auto reaper, ChildReaper::Create());
  BRAID_ASSIGN_OR_RETURN(auto pump, OutputPump::Create(log));
  return std::unique_ptr<PythonBackend>(
      new PythonBackend(std::move(options), std::move(reaper), std::move(pump), log));
}

PythonBackend::PythonBackend(Options options, std::unique_ptr<ChildReaper> reaper,
                             std::unique_ptr<OutputPump> pump, Logger& log)
    : options_(std::move(options)),
      log_(log),
      reaper_(std::move(reaper)),
      pump_(std::move(pump)),
      spawner_({options_.python, options_.worker_directory, options_.worker_start}, *reaper_, *pump_, log_) {}

PythonBackend::~PythonBackend() = default;

Status PythonBackend::AutoComplete(const ModelLocation& location, inference::ModelConfig& config) {
  BRAID_RETURN_IF_ERROR(CheckModelFile(location.model_file));
  const PythonModelFacts facts = Facts(location, config, 0);
  BRAID_ASSIGN_OR_RETURN(std::string json, AutoCompleteConfig(facts, spawner_, *reaper_, log_,
                                                              options_.stub_timeout_seconds * 1'000'000'000));
  if (json.empty()) return OkStatus();
  BRAID_ASSIGN_OR_RETURN(config, ConfigFromJson(json));
  return OkStatus();
}

Result<std::unique_ptr<BackendModel>> PythonBackend::Create(
    const ModelLocation& location, std::shared_ptr<const inference::ModelConfig> config) {
  BRAID_RETURN_IF_ERROR(CheckModelFile(location.model_file));
  Arena::Options arena;
  arena.keep_bytes = options_.memory_keep_bytes;
  arena.max_bytes = options_.memory_max_bytes;
  arena.max_bytes_option = "--memory-max-bytes";
  std::vector<PythonInstanceSpec> instances;
  for (const InstanceSpec& spec : ListInstances(*config)) {
    instances.push_back({spec.name, spec.kind, spec.device_id, spec.passive});
  }
  return std::unique_ptr<BackendModel>(std::make_unique<PythonModel>(
      location, Facts(location, *config, options_.memory_keep_bytes), std::move(instances), segment_ids_,
      arena, spawner_, *reaper_, log_, options_.stub_timeout_seconds * 1'000'000'000, options_.services));
}

}  // namespace braid
