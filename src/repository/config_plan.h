// ConfigPlan: the models, pipelines, libraries and graphs of a config.json, with those of the files it points
// to.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/log.h"
#include "base/status.h"
#include "config/ovms_config.h"

namespace braid {

struct ConfigPlan {
  // Models of the graphs' subconfigs follow the file's own.
  std::vector<OvmsModelConfig> models;
  std::vector<OvmsPipelineConfig> pipelines;
  std::vector<OvmsCustomNodeLibrary> libraries;
  std::vector<OvmsGraphConfig> graphs;
  std::optional<OvmsMetricsConfig> metrics;
};

// Returns the versions in a model's folder, ascending: folders named by whole numbers from 1 on. Symbolic
// links are followed, because the operator owns the folder. If `path` is a file, it is version 1. Errors:
// kPathInvalid.
Result<std::vector<int64_t>> ListVersionFolders(const std::string& path);
// Returns the path of a version that ListVersionFolders() has found.
std::string VersionPathOf(const std::string& base_path, int64_t version);
// Returns the names of the files of a version that is a file, sorted: itself, those beside it that have
// another ending (".bin"), and mapping_config.json.
std::vector<std::string> FilesOfVersionFile(const std::string& path);

// Returns the versions of `available` (ascending) that the policy chooses.
std::vector<int64_t> ChooseVersionFolders(const OvmsVersionPolicy& policy,
                                          const std::vector<int64_t>& available);

// Returns the file that names a graph's models; "" if there is none. `config_path` is the file that names the
// graph.
std::string SubconfigOf(const OvmsGraphConfig& graph, const std::string& config_path);

// Parses the text of the file at `path` and reads the graphs' subconfigs. A model entry whose folder holds a
// graph becomes a graph. Warnings and errors of subconfigs are logged. Errors: as ParseOvmsConfig().
Result<ConfigPlan> ReadConfigPlan(const std::string& path, const std::string& text, Logger& log);

// Like ReadConfigPlan(), for one model of the command line. It becomes a graph if its folder or its newest
// version holds one. Errors: INVALID_ARGUMENT for a graph with options that only models have.
Result<ConfigPlan> PlanSingleModel(const OvmsModelConfig& model, Logger& log);

}  // namespace braid
