// FolderLoads: loads models from model folders: collects their dependencies, orders the loads and builds the
// versions.
//
// Stateless. The ServableTable has the served versions and the claims.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "base/log.h"
#include "base/status.h"
#include "repository/dependency_graph.h"
#include "repository/drains.h"
#include "repository/load_plan.h"
#include "repository/load_set.h"
#include "repository/manager_options.h"
#include "repository/model_folders.h"
#include "repository/model_source.h"
#include "repository/parallel.h"
#include "repository/servable_table.h"
#include "repository/version_loader.h"

namespace braid {

// Thread-safe. All methods block on user code.
class FolderLoads {
 public:
  // Status by name: the requested models and their dependencies that were loaded with them.
  using Outcome = std::map<std::string, Status>;

  // REQUIRES: `options` has folders. All references outlive the object.
  FolderLoads(const ManagerOptions& options, const ModelFolders& folders, ServableTable& table,
              Drains& drains, FolderMakers makers, const ErrorTexts& error_texts, Logger& log);

  // Claims models together with their dependencies, and adds the steps that load them. Each step releases its
  // model and writes its entry in `outcome`, which outlives the steps. Errors: UNAVAILABLE if a model is
  // already being loaded, and those of LoadRequest::rights; nothing is claimed then.
  Status Plan(const std::vector<LoadRequest>& wanted, Steps& steps, Outcome& outcome);
  // Errors: those of SourceReader::CheckOverride().
  Status CheckOverride(const LoadRequest& request) const { return reader_.CheckOverride(request); }
  // Returns the model and the dependencies that are loaded with it. Reads the disk.
  std::set<std::string> LoadedWith(const LoadRequest& request) const;
  // Remakes an ensemble if it is due.
  void MakeIfDue(const std::string& ensemble);

  // Removes the files that killed servers have left.
  void RemoveAbandoned() const { reader_.RemoveAbandoned(); }
  // Makes loads that are still preparing fail soon.
  void BeginShutdown() const { loader_.BeginShutdown(); }

 private:
  using Builds = std::map<int64_t, Result<std::shared_ptr<Servable>>>;

  LoadSet Collect(const std::vector<LoadRequest>& wanted) const;
  // Load one claimed model. `uses` has the dependencies of all models that are loaded with it.
  Status LoadAndRelease(const LoadRequest& request, const Dependencies& uses);
  Status LoadClaimed(const LoadRequest& request, const Dependencies& uses);
  Result<LoadPlan> Read(const LoadRequest& request);
  Status Build(const LoadRequest& request, const LoadPlan& plan, const Dependencies& uses);
  Builds BuildVersions(const ModelSource& source, const std::vector<int64_t>& versions,
                       const Dependencies& uses);
  Result<std::shared_ptr<Servable>> BuildVersion(const ModelSource& source, int64_t version,
                                                 const Dependencies& uses);

  const ManagerOptions& options_;
  const ModelFolders& folders_;
  const bool copies_on_request_;  // models in object stores are copied when they are loaded
  ServableTable& table_;
  Drains& drains_;
  const ErrorTexts& error_texts_;
  Logger& log_;
  const SourceReader reader_;
  const VersionLoader loader_;
};

}  // namespace braid
