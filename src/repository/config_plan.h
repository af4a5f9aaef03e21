// What a config.json asks for, once the files that it points to have been looked at.
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
  // Those of the graphs' subconfigs stand behind the file's own.
  std::vector<OvmsModelConfig> models;
  std::vector<OvmsPipelineConfig> pipelines;
  std::vector<OvmsCustomNodeLibrary> libraries;
  std::vector<OvmsGraphConfig> graphs;
  std::optional<OvmsMetricsConfig> metrics;
};

// The versions in a model's folder, ascending: folders whose names are whole numbers from 1 on. Links are
// followed, the folder is the operator's. A file is its own version 1. Errors: kPathInvalid.
Result<std::vector<int64_t>> ListVersionFolders(const std::string& path);
// Where a version is that ListVersionFolders() has found.
std::string VersionPathOf(const std::string& base_path, int64_t version);

// Those of `available`, which is ascending, that a policy asks for.
std::vector<int64_t> ChooseVersionFolders(const OvmsVersionPolicy& policy,
                                          const std::vector<int64_t>& available);

// The file that names a graph's models; empty when there is none. `config_path` is the file that names the graph.
std::string SubconfigOf(const OvmsGraphConfig& graph, const std::string& config_path);

// Parses the text of the file at `path`, takes the model entries whose folders hold a graph for graphs, and
// reads the graphs' subconfigs. Warnings and what is wrong with a subconfig go to the log. Errors: as
// ParseOvmsConfig().
Result<ConfigPlan> ReadConfigPlan(const std::string& path, const std::string& text, Logger& log);

// The same for one model of the command line; a folder that holds a graph, or whose newest version does, is a
// graph. Errors: INVALID_ARGUMENT for a graph with options that only models have.
Result<ConfigPlan> PlanSingleModel(const OvmsModelConfig& model, Logger& log);

}  // namespace braid
