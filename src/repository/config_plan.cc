#include "repository/config_plan.h"

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <system_error>
#include <utility>

#include "config/config_file.h"
#include "repository/version_policy.h"
#include "serving/faults.h"

namespace braid {
namespace {

constexpr size_t kMostEntries = 100000;

bool IsFile(const std::string& path) {
  std::error_code fault;
  return std::filesystem::is_regular_file(path, fault);
}

std::string FolderOf(const std::string& path) {
  std::error_code fault;
  const std::filesystem::path absolute = std::filesystem::absolute(path, fault);
  return (fault ? std::filesystem::path(path) : absolute).parent_path().string();
}

void AddSubconfigs(const std::string& config_path, ConfigPlan& plan, Logger& log) {
  for (const OvmsGraphConfig& graph : plan.graphs) {
    const std::string path = SubconfigOf(graph, config_path);
    if (path.empty()) continue;
    std::vector<std::string> warnings;
    auto models = [&]() -> Result<std::vector<OvmsModelConfig>> {
      BRAID_ASSIGN_OR_RETURN(const std::string text, ReadConfigFile(path));
      return ParseOvmsSubconfig(text, FolderOf(path), warnings);
    }();
    if (!models.ok()) {
      BRAID_LOG_ERROR(log, "the models of graph '{}' are not loaded: {}: {}", graph.name, path,
                      models.status().message());
      continue;
    }
    for (const std::string& warning : warnings) BRAID_LOG_WARNING(log, "{}: {}", path, warning);
    for (OvmsModelConfig& model : *models) {
      const bool known = std::any_of(plan.models.begin(), plan.models.end(),
                                     [&model](const auto& other) { return other.name == model.name; });
      if (known) {
        BRAID_LOG_WARNING(log, "{}: duplicate model '{}'; this entry is ignored", path, model.name);
      } else {
        plan.models.push_back(std::move(model));
      }
    }
  }
}

}  // namespace

std::string SubconfigOf(const OvmsGraphConfig& graph, const std::string& config_path) {
  if (IsFile(graph.subconfig)) return graph.subconfig;
  const std::string other = graph.base_path + "config.json";
  std::error_code fault;
  if (!IsFile(other) || std::filesystem::equivalent(other, config_path, fault)) return {};
  return other;
}

std::string VersionPathOf(const std::string& base_path, int64_t version) {
  return IsFile(base_path) ? base_path : base_path + "/" + std::to_string(version);
}

Result<std::vector<int64_t>> ListVersionFolders(const std::string& path) {
  if (IsFile(path)) return std::vector<int64_t>{1};
  std::vector<int64_t> versions;
  std::error_code fault;
  size_t entries = 0;
  for (auto it = std::filesystem::directory_iterator(path, fault);
       !fault && it != std::filesystem::directory_iterator(); it.increment(fault)) {
    if (++entries > kMostEntries) return FaultError(Fault::kPathInvalid, path + ": too many entries");
    const auto version = ParseVersion(it->path().filename().string());
    std::error_code ignored;
    if (version && it->is_directory(ignored)) versions.push_back(*version);
  }
  if (fault) return FaultError(Fault::kPathInvalid, path + ": " + fault.message());
  std::sort(versions.begin(), versions.end());
  return versions;
}

std::vector<std::string> FilesOfVersionFile(const std::string& path) {
  const std::filesystem::path file(path);
  std::vector<std::string> names;
  std::error_code fault;
  size_t entries = 0;
  for (auto it = std::filesystem::directory_iterator(file.parent_path(), fault);
       !fault && it != std::filesystem::directory_iterator() && ++entries <= kMostEntries;
       it.increment(fault)) {
    const std::filesystem::path& beside = it->path();
    if ((beside.stem() == file.stem() || beside.filename() == "mapping_config.json") && IsFile(beside))
      names.push_back(beside.filename().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

std::vector<int64_t> ChooseVersionFolders(const OvmsVersionPolicy& policy,
                                          const std::vector<int64_t>& available) {
  std::vector<int64_t> chosen;
  switch (policy.kind) {
    case OvmsVersionPolicy::Kind::kAll:
      return available;
    case OvmsVersionPolicy::Kind::kSpecific:
      std::copy_if(available.begin(), available.end(), std::back_inserter(chosen),
                   [&policy](int64_t version) {
                     return std::ranges::find(policy.specific, version) != policy.specific.end();
                   });
      return chosen;
    case OvmsVersionPolicy::Kind::kLatest:
      break;
  }
  const size_t count = std::min(static_cast<size_t>(policy.latest), available.size());
  chosen.assign(available.end() - static_cast<std::ptrdiff_t>(count), available.end());
  return chosen;
}

Result<ConfigPlan> ReadConfigPlan(const std::string& path, const std::string& text, Logger& log) {
  BRAID_ASSIGN_OR_RETURN(OvmsConfig config, ParseOvmsConfig(text, FolderOf(path)));
  for (const std::string& warning : config.warnings) BRAID_LOG_WARNING(log, "{}: {}", path, warning);
  ConfigPlan plan;
  plan.pipelines = std::move(config.pipelines);
  plan.libraries = std::move(config.custom_node_libraries);
  plan.graphs = std::move(config.graphs);
  plan.metrics = std::move(config.metrics);
  for (OvmsModelConfig& entry : config.models) {
    OvmsGraphConfig graph = GraphOfModelEntry(entry);
    if (!IsFile(graph.graph_path)) {
      plan.models.push_back(std::move(entry));
      continue;
    }
    const bool known = std::any_of(plan.graphs.begin(), plan.graphs.end(),
                                   [&graph](const auto& other) { return other.name == graph.name; });
    if (known) {
      BRAID_LOG_WARNING(log, "{}: duplicate graph '{}'; the entry of model_config_list is ignored", path,
                        graph.name);
    } else {
      plan.graphs.push_back(std::move(graph));
    }
  }
  AddSubconfigs(path, plan, log);
  return plan;
}

Result<ConfigPlan> PlanSingleModel(const OvmsModelConfig& model, Logger& log) {
  OvmsModelConfig entry = model;
  if (!IsFile(GraphOfModelEntry(entry).graph_path)) {
    const auto versions = ListVersionFolders(model.base_path);
    if (versions.ok() && !versions->empty()) {
      entry.base_path = VersionPathOf(model.base_path, versions->back());
    }
  }
  ConfigPlan plan;
  OvmsGraphConfig graph = GraphOfModelEntry(entry);
  if (!IsFile(graph.graph_path)) {
    plan.models.push_back(model);
    return plan;
  }
  OvmsModelConfig plain;
  plain.name = model.name;
  plain.base_path = model.base_path;
  plain.plugin_config = model.plugin_config;
  if (model != plain) {
    return InvalidArgumentError(
        "'" + model.name +
        "' is a graph, which supports only --model_name, --model_path and --plugin_config");
  }
  plan.graphs.push_back(std::move(graph));
  AddSubconfigs("", plan, log);
  return plan;
}

}  // namespace braid
