// OvmsCheck: loads a config.json and all entries in it as the server does, up to the start of the instances.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "check/finding.h"
#include "check/json_fields.h"
#include "check/load_sandbox.h"
#include "check/summary.h"
#include "config/ovms_config.h"
#include "pipeline/pipeline.h"
#include "pipeline/pipeline_faults.h"

namespace braid::check {

// Not thread-safe.
class OvmsCheck {
 public:
  // All references outlive it.
  OvmsCheck(LoadSandbox& sandbox, Findings& findings, Summary& summary)
      : sandbox_(sandbox), findings_(findings), summary_(summary) {}

  // Checks the models of a config.json and of its graphs' subconfigs. Returns whether the file itself is
  // valid.
  bool CheckModels(const std::string& path);
  // Checks the pipelines and graphs of that file. REQUIRES: CheckModels() and all other models that they use
  // have been checked.
  void CheckPipelinesAndGraphs();
  // Checks a graph's file of models (subconfig.json) by itself.
  void CheckSubconfig(const std::string& path);

 private:
  // A file with the positions of its entries.
  struct File {
    std::string path;
    JsonFields fields;
  };
  struct Entry {
    const File* file = nullptr;
    std::string place;  // "/model_config_list/0/config"
  };

  const File* ReadFile(const std::string& path, std::string& text);
  void AddFaults(const File& file, const std::vector<OvmsFault>& faults, const Status& status);
  void NoteTwice(const File& file, std::string_view list, std::string_view inside);
  // Returns the position of the entry with this name, or the whole file if it has none.
  Entry EntryOf(const File& file, std::string_view list, std::string_view inside,
                const std::string& name) const;
  void CheckModel(const Entry& entry, const OvmsModelConfig& model);
  void CheckPipeline(const Entry& entry, const OvmsPipelineConfig& pipeline);
  void AddSubconfig(const OvmsGraphConfig& graph, const std::string& config_path);
  CustomNodeLibraries OpenLibraries();
  void Add(const Entry& entry, std::string_view key, Level level, std::string rule, std::string message,
           std::string servable, std::string advice = {});

  LoadSandbox& sandbox_;
  Findings& findings_;
  Summary& summary_;
  std::vector<std::unique_ptr<const File>> files_;
  const File* main_ = nullptr;
  OvmsConfig config_;
  std::vector<std::pair<Entry, OvmsModelConfig>> models_;
  CustomNodeLibraries libraries_;
};

}  // namespace braid::check
