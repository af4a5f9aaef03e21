// FolderLoads: carries out loads from model folders: finds out what goes together and in which order, and
// builds versions.
//
// What is served meanwhile, and who may load what, is in the ServableTable; this has no state of its own.
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
#include "repository/manager_options.h"
#include "repository/model_folders.h"
#include "repository/model_source.h"
#include "repository/parallel.h"
#include "repository/servable_table.h"
#include "repository/version_loader.h"

namespace braid {

// All methods may be called from any thread, and block on user code.
class FolderLoads {
 public:
  // Status by name, of the models that were asked for and of those that were loaded with them.
  using Outcome = std::map<std::string, Status>;

  // `options` has folders. All references outlive it.
  FolderLoads(const ManagerOptions& options, const ModelFolders& folders, ServableTable& table,
              Drains& drains, FolderMakers makers, const ErrorTexts& error_texts, Logger& log);

  // Claims models together with those that they use, and adds the steps that load them; each step releases
  // its model and writes to its place in `outcome`, which outlives the steps. Errors: UNAVAILABLE, when one
  // of them is being loaded already, and those of LoadRequest::rights; nothing is claimed then.
  Status Plan(const std::vector<LoadRequest>& wanted, Steps& steps, Outcome& outcome);
  // Errors: those of SourceReader::CheckOverride().
  Status CheckOverride(const LoadRequest& request) const { return reader_.CheckOverride(request); }
  // Makes an ensemble anew if it is due.
  void MakeIfDue(const std::string& ensemble);

  // Removes what servers that were killed have left.
  void RemoveAbandoned() const { reader_.RemoveAbandoned(); }
  // Loads that still prepare fail soon.
  void BeginShutdown() const { loader_.BeginShutdown(); }

 private:
  using Builds = std::map<int64_t, Result<std::shared_ptr<Servable>>>;

  // Of a model that is claimed. `uses` is what is loaded with it uses.
  Status LoadAndRelease(const LoadRequest& request, const Dependencies& uses);
  Status LoadClaimed(const LoadRequest& request, const Dependencies& uses);
  Result<LoadPlan> Read(const LoadRequest& request);
  Status Build(const LoadRequest& request, const LoadPlan& plan, const Dependencies& uses);
  Builds BuildVersions(const ModelSource& source, const std::vector<int64_t>& versions,
                       const Dependencies& uses);
  Result<std::shared_ptr<Servable>> BuildVersion(const ModelSource& source, int64_t version,
                                                 const Dependencies& uses);

  const ManagerOptions& options_;
  ServableTable& table_;
  Drains& drains_;
  const ErrorTexts& error_texts_;
  Logger& log_;
  const SourceReader reader_;
  const VersionLoader loader_;
};

}  // namespace braid
