// ModelTable: what a model repository knows of each of its models, and what of the catalog is theirs.
//
// Who loads a model claims it first, so that nobody else does meanwhile, and says in the table how far the
// load has come:
//
//   BRAID_RETURN_IF_ERROR(table.Claim({"m"}));
//   table.NotePlan("m", plan);
//   for (int64_t version : table.BeginBuilds("m", plan.keys)) ...    // built without the table's lock
//   ModelTable::Leaving leaving;
//   if (!table.Serve(request, plan, built, leaving)) ...             // the repository exits
//   table.Drain(std::move(leaving));
//   table.Release("m", status);
//
// Between Claim() and Release() nothing but Close() and the ends of drains changes what is known of the
// model. A model that is neither on disk nor in memory leaves no trace, so that names from requests cannot
// fill the memory.
//
// A name that is in the catalog and not the table's is foreign: another repository has brought it. Ensembles
// may use what it stands for; they take it as it is, and follow it when it is replaced.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/log.h"
#include "base/status.h"
#include "repository/dependencies.h"
#include "repository/drains.h"
#include "repository/ensemble_links.h"
#include "repository/load_plan.h"
#include "repository/servable_numbers.h"
#include "serving/catalog.h"
#include "serving/model_control.h"
#include "serving/servable.h"

namespace braid {

// How the message of a load that failed begins; its versions' faults follow.
std::string LoadFailed(const std::string& model);

// All methods may be called from any thread.
class ModelTable {
 public:
  using Built = std::map<int64_t, std::shared_ptr<Servable>>;
  // What requests no longer find, and what still has to be drained: each with the ticket of its drain, which
  // is 0 for one that another build has replaced.
  using Leaving = std::vector<std::pair<std::shared_ptr<Servable>, uint64_t>>;

  // All outlive it.
  ModelTable(Catalog& catalog, Drains& drains, Logger& log) : catalog_(catalog), drains_(drains), log_(log) {}

  // ---- what is on disk ----

  // These are all model folders that there are.
  void NoteFolders(const std::set<std::string>& names);
  // What a load has seen of one model's folder. REQUIRES: claimed.
  void NoteFolder(const std::string& name, bool on_disk);
  // Whether polling has to load a model: it does not serve, or its folder is not as it was when it was last
  // tried. Without a fingerprint a model that serves is left alone.
  bool NeedsLoad(const std::string& name, std::optional<uint64_t> fingerprint) const;
  // Models that serve from folders which are not among `names`.
  std::vector<std::string> GoneFrom(const std::set<std::string>& names) const;

  // ---- claims ----

  // All or none of them, so that two loads that share models do not hold each other up half way. Errors:
  // UNAVAILABLE, when one of them is claimed already.
  Status Claim(const std::set<std::string>& names);
  // `fault` is what has become of the load.
  void Release(const std::string& name, const Status& fault);
  // Errors: as Claim(), which it does not do.
  Status CheckUnclaimed(const std::set<std::string>& names) const;

  // ---- the steps of a load; all REQUIRE that the model is claimed ----

  // Errors: ALREADY_EXISTS, when the name is foreign.
  Status CheckOurs(const std::string& name) const;
  // The load could not even read what it is to load.
  void NoteUnreadable(const std::string& name);
  // The load has a plan. Completes it with the builds of what an ensemble uses. True when what is served
  // already is what the plan would bring.
  bool NotePlan(const LoadRequest& request, LoadPlan& plan);
  // The versions that are to be built, of those of a plan (with their keys): all but those that are served as
  // they are to be. Those without a build that serves meanwhile are LOADING from now on. Errors: as
  // CheckOurs().
  Result<std::vector<int64_t>> BeginBuilds(const std::string& name, const std::map<int64_t, uint64_t>& keys);
  // How a build gets on.
  void NoteProgress(const std::string& name, int64_t version, const std::string& text);
  // Every build has succeeded: they serve from now on, together, and versions that are not in the plan do no
  // longer. False, and nothing has changed, when Close() was called.
  bool Serve(const LoadRequest& request, const LoadPlan& plan, Built built, Leaving& leaving);
  // Builds have failed, or are of no use. What was LOADING is UNAVAILABLE, with its text of `reasons` or as
  // unloaded.
  void AbandonBuilds(const std::string& name, const std::map<int64_t, std::string>& reasons);

  // ---- unloading ----

  // No version is served any longer; an unknown model is none. Errors: UNAVAILABLE while the model is
  // claimed, unless Close() was called: a load that runs sees that itself.
  Status Retire(const std::string& name, Leaving& leaving);
  // Closes their gates; each is stopped when its last request has left, and what was retired is reported as
  // unloaded then.
  void Drain(Leaving leaving);

  // From now on nothing new serves.
  void Close();
  std::vector<std::string> Names() const;
  bool Serves(const std::string& name) const;
  // Models that are still being loaded or drained.
  std::vector<std::string> Unfinished() const;

  // ---- ensembles ----

  // Of a model that who uses it takes as it is, what it uses: one that came with a load request and is
  // served, and a foreign one, of which that is not known. Nothing for others.
  std::optional<std::set<std::string>> KeptUses(const std::string& name) const;
  // By ensemble that was made, what it uses.
  Dependencies uses() const;
  // An ensemble in a folder is to be made when all that it uses serves, foreign models too. So is one whose
  // load has failed, when something foreign that it uses is another.
  void WaitForModels(const LoadRequest& request, const std::set<std::string>& uses);
  // Whether an ensemble still waits for models without ever having been tried.
  bool WaitsUntried(const std::string& name) const;
  // The end of the sentence "ensemble 'e' depends on 'm'", for a model without a loaded version.
  std::string WhyMissing(const std::string& name) const;
  // Claims the ensembles whose models have been replaced since they were made, and those that have waited for
  // models which are there now; gives the requests that make them. Each ensemble is tried once with the
  // models as they are.
  std::vector<LoadRequest> ClaimStale();

 private:
  struct Served {
    std::shared_ptr<Servable> servable;  // shared with the catalog and with the requests inside
    uint64_t key = 0;                    // what it was made from; see LoadPlan
  };
  struct Model {
    bool claimed = false;
    bool on_disk = false;
    bool ours = false;  // the name in the catalog; it goes with the model
    std::map<int64_t, Served> served;
    // Those that the load that runs has set to LOADING.
    std::set<int64_t> loading;
    // Retired versions whose requests have not all left, with the drain that will report them as unloaded.
    std::map<int64_t, uint64_t> draining;
    // Of the folder when it was last tried, and when it was last loaded with success.
    std::optional<uint64_t> tried;
    std::optional<uint64_t> loaded;
    // What the last successful load was asked for.
    std::optional<std::string> config_json;
    bool from_files = false;
    // Why the last load failed; whether it could not even be read.
    Status fault;
    bool unreadable = false;
  };

  void ForgetIfGoneLocked(const std::string& name);
  Status CheckOursLocked(const std::string& name, const Model& model) const;
  Status TakeNameLocked(const std::string& name, Model& model);
  Status CheckUnclaimedLocked(const std::set<std::string>& names) const;
  void NoteFolderLocked(const std::string& name, Model& model, bool on_disk);
  uint64_t RetireLocked(const std::string& name, Model& model, int64_t version);
  void EndDrain(const std::string& name, int64_t version, uint64_t ticket);
  bool IsForeignLocked(const std::string& name) const;
  bool AwaitsForeignLocked(const std::string& name) const;
  std::optional<uint64_t> BuildOfLocked(const std::string& name);
  std::optional<LoadRequest> TakeStaleLocked(const std::string& name, const Model& model);

  Catalog& catalog_;
  Drains& drains_;
  Logger& log_;

  mutable std::mutex mutex_;  // held while the catalog is written, so that both agree
  // All guarded by mutex_.
  bool closed_ = false;
  std::map<std::string, Model> models_;
  EnsembleLinks links_;
  ServableNumbers foreign_;  // what is foreign has no key
  uint64_t last_ticket_ = 0;
};

}  // namespace braid
