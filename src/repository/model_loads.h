// ModelLoads: carries out loads of a model repository: finds out what goes together and in which order,
// builds versions, and makes the ensembles anew whose models have been replaced.
//
// What is served meanwhile, and who may load what, is in the ModelTable; this has no state of its own.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "base/log.h"
#include "base/status.h"
#include "repository/dependencies.h"
#include "repository/drains.h"
#include "repository/load_plan.h"
#include "repository/load_set.h"
#include "repository/model_folders.h"
#include "repository/model_repository.h"
#include "repository/model_source.h"
#include "repository/model_table.h"
#include "repository/version_loader.h"

namespace braid {

// All methods may be called from any thread, and block on user code.
class ModelLoads {
 public:
  // Status by name, of the models that were asked for and of those that were loaded with them.
  using Outcome = std::map<std::string, Status>;

  // All references outlive it.
  ModelLoads(const RepositoryOptions& options, const ModelFolders& folders, ModelTable& table, Drains& drains,
             std::vector<Backend*> backends, ModelRepository::ServableFactory factory,
             ModelRepository::EnsembleFactory ensembles, const ErrorTexts& error_texts, Logger& log);

  // Loads models together with those that they use, each after what it uses, several at once. Errors:
  // UNAVAILABLE, when one of them is being loaded already; nothing is loaded then.
  Result<Outcome> Load(const std::vector<LoadRequest>& wanted);
  // The same for the startup set while others have not yet brought theirs to the catalog: ensembles that use
  // a model which is not among `folders` are left out, with those that use them. They wait in the table, and
  // their names are added to `waiting`.
  Result<Outcome> LoadButWaiting(const std::vector<LoadRequest>& wanted, const std::set<std::string>& folders,
                                 std::vector<std::string>& waiting);
  // Makes the ensembles that can be made and are not, or not of the models as they are.
  void RefreshEnsembles();

  // Removes what servers that were killed have left.
  void RemoveAbandoned() const { reader_.RemoveAbandoned(); }
  // Loads that still prepare fail soon.
  void BeginShutdown() const { loader_.BeginShutdown(); }

 private:
  using Builds = std::map<int64_t, Result<std::shared_ptr<Servable>>>;

  LoadSet Collect(const std::vector<LoadRequest>& wanted);
  Result<Outcome> Run(const LoadSet& loads);
  // Of a model that is claimed.
  Status LoadAndRelease(const LoadRequest& request, const Dependencies& uses);
  Status LoadClaimed(const LoadRequest& request, const Dependencies& uses);
  Result<LoadPlan> Read(const LoadRequest& request);
  Status Build(const LoadRequest& request, const LoadPlan& plan, const Dependencies& uses);
  Builds BuildVersions(const ModelSource& source, const std::vector<int64_t>& versions,
                       const Dependencies& uses);
  Result<std::shared_ptr<Servable>> BuildVersion(const ModelSource& source, int64_t version,
                                                 const Dependencies& uses);

  const RepositoryOptions& options_;
  ModelTable& table_;
  Drains& drains_;
  const ErrorTexts& error_texts_;
  Logger& log_;
  const SourceReader reader_;
  const VersionLoader loader_;
};

}  // namespace braid
