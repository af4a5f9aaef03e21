// ServableTable: everything that the server serves or is to serve: whose each name is, which versions serve,
// which are being loaded or drained, and what ensembles and pipelines were made of.
//
// The table writes the catalog. One mutex guards both, and is never held while anything is read or built.
//
// A name belongs to the source that has brought it first, a model folder or the config.json. Names of a
// config.json stay known when they are gone from it, and may then become another kind's. A name of a model
// folder that is neither on disk nor in memory leaves no trace, so that names from requests cannot fill the
// memory.
//
// Who loads a model of a model folder claims it first, so that no other load of it runs meanwhile, and says
// in the table how far the load has come:
//
//   BRAID_RETURN_IF_ERROR(table.Claim({"m"}));
//   table.NotePlan("m", plan);
//   for (int64_t version : table.BeginBuilds("m", plan.keys)) ...    // built without the table's lock
//   ServableTable::RetiredServables leaving;
//   if (!table.Serve(request, plan, built, leaving)) ...             // the server exits
//   table.Drain(std::move(leaving));
//   table.Release("m", status);
//
// Between Claim() and Release() nothing but Close() and the ends of drains changes what is known of the
// model. The config.json's names need no claim, since its rounds take turns.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/log.h"
#include "base/mutex.h"
#include "base/status.h"
#include "repository/dependency_graph.h"
#include "repository/drains.h"
#include "repository/load_plan.h"
#include "serving/catalog.h"
#include "serving/model_control.h"
#include "serving/servable.h"

namespace braid {

// How the message of a load that failed begins; its versions' faults follow.
std::string LoadFailed(const std::string& model);

// All methods may be called from any thread.
class ServableTable {
 public:
  using Built = std::map<int64_t, std::shared_ptr<Servable>>;
  // What requests no longer find, and what still has to be drained: each with the ticket of its drain, which
  // is 0 for one that another build has replaced.
  using RetiredServables = std::vector<std::pair<std::shared_ptr<Servable>, uint64_t>>;

  // All outlive it.
  ServableTable(Catalog& catalog, Drains& drains, Logger& log)
      : catalog_(catalog), drains_(drains), log_(log) {}

  // ---- names of the config.json ----

  // What the file has now. Names that are free become its own, and are in the catalog before anything is made; those that it
  // does not have stay known, and another kind may take them.
  void Want(const std::set<std::pair<std::string, ServableKind>>& wanted);
  // Errors: as Own(), which it does not do.
  Status CheckOwn(const std::string& name, ServableKind kind) const;
  // Lists the name in the catalog as one of this kind; what another kind, no longer wanted, has left there
  // goes. Errors: ALREADY_EXISTS when it belongs to another kind or to a model folder.
  Status Own(const std::string& name, ServableKind kind);

  // None of these changes anything when Close() was called, or when the name has become another kind's.
  // The version does not serve.
  void SetLoading(const std::string& name, int64_t version, ServableKind kind);
  // Whatever has served the version leaves.
  void SetFailed(const std::string& name, int64_t version, ServableKind kind, const Status& fault,
                 RetiredServables& leaving);
  // The version serves from now on; what it replaces leaves. False when nothing has changed.
  bool Serve(std::shared_ptr<Servable> servable, RetiredServables& leaving);
  // The version is taken away.
  void Retire(const std::string& name, int64_t version, ServableKind kind, RetiredServables& leaving);

  // ---- what is on disk of the model folders ----

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

  // ---- the steps of a load from a model folder; all REQUIRE that the model is claimed ----

  // Errors: ALREADY_EXISTS, when the name is the config.json's.
  Status CheckFree(const std::string& name) const;
  // The load could not even read what it is to load. `reason`: for clients; "" for a model that is not there.
  void NoteUnreadable(const std::string& name, const std::string& reason);
  // The load has a plan. Completes it with the builds of what an ensemble uses. True when what is served
  // already is what the plan would bring.
  bool NotePlan(const LoadRequest& request, LoadPlan& plan);
  // The versions that are to be built, of those of a plan (with their keys): all but those that are served as
  // they are to be. Those without a build that serves meanwhile are LOADING from now on. Errors: as
  // CheckFree().
  Result<std::vector<int64_t>> BeginBuilds(const std::string& name, const std::map<int64_t, uint64_t>& keys);
  // How a build gets on.
  void NoteProgress(const std::string& name, int64_t version, const std::string& text);
  // Every build has succeeded: they serve from now on, together, and versions that are not in the plan do no
  // longer. False, and nothing has changed, when Close() was called.
  bool Serve(const LoadRequest& request, const LoadPlan& plan, Built built, RetiredServables& leaving);
  // Builds have failed, or are of no use. What was LOADING is UNAVAILABLE, with its text of `reasons` or as
  // unloaded.
  void AbandonBuilds(const std::string& name, const std::map<int64_t, std::string>& reasons);

  // No version of the model is served any longer; what is no model of a folder is left alone. Errors:
  // UNAVAILABLE while the model is claimed.
  Status Unload(const std::string& name, RetiredServables& leaving);

  // ---- the end of versions, and of the server ----

  // Closes their gates; each is stopped when its last request has left, and what was retired is reported as
  // unloaded then.
  void Drain(RetiredServables leaving);
  // Waits until nothing that was retired drains. False when that takes past `deadline_ns`.
  bool AwaitDrains(int64_t deadline_ns) const;
  // From now on nothing new serves.
  void Close();
  bool closed() const;
  // Retires and drains everything, pipelines before what they use. REQUIRES: closed().
  void RetireAll();
  bool Serves(const std::string& name) const;
  // What is still being loaded or drained.
  std::vector<std::string> Unfinished() const;

  // ---- ensembles and pipelines ----

  // Whether the name is the config.json's. Ensembles take what it stands for as it is.
  bool IsOfConfig(const std::string& name) const;
  // Of a model that who uses it takes as it is, what it uses: one that came with a load request and is
  // served, and one of the config.json, of which that does not matter. Nothing for others.
  std::optional<std::set<std::string>> KeptUses(const std::string& name) const;
  // What ensembles and pipelines are, or are to be, made of; and what those use that were made.
  Dependencies uses() const;
  Dependencies made_uses() const;
  // The end of the sentence "ensemble 'e' depends on 'm'", for a model without a loaded version.
  std::string WhyMissing(const std::string& name) const;

  // Claims the ensemble if it is to be made anew, as other builds of its models serve than it was made of, or
  // if it has waited for something of the config.json that is there now; gives the request that makes it. It
  // is tried once with the builds as they are.
  std::optional<LoadRequest> ClaimIfDue(const std::string& ensemble);

  // A pipeline has a new definition, or is to be tried again.
  void SetUses(const std::string& pipeline, DependencyGraph::Uses uses);
  // Whether it was never tried with the builds that serve now, or, at its last try, with others.
  bool IsDue(const std::string& pipeline) const;
  // It is tried now; which builds there are.
  uint64_t NoteTry(const std::string& pipeline);
  // The try has succeeded with these builds.
  void NoteMade(const std::string& pipeline, uint64_t key);
  uint64_t KeyOf(const DependencyGraph::Uses& uses) const;

 private:
  enum class Owner : unsigned char { kNone, kFolder, kConfig };

  struct Served {
    std::shared_ptr<Servable> servable;  // shared with the catalog and with the requests inside
    uint64_t build = 0;                  // of a folder: what it was made from (see LoadPlan)
  };
  struct Entry {
    Owner owner = Owner::kNone;
    std::map<int64_t, Served> served;
    // Retired versions whose requests have not all left, with the ticket of the drain that will report them
    // as unloaded.
    std::map<int64_t, uint64_t> draining;

    // Of the config.json.
    ServableKind kind = ServableKind::kModel;
    bool wanted = false;

    // Of a model folder.
    bool claimed = false;
    bool on_disk = false;
    // Those that the load that runs has set to LOADING.
    std::set<int64_t> loading;
    // Of the folder when it was last tried, and when it was last loaded with success.
    std::optional<uint64_t> tried;
    std::optional<uint64_t> loaded;
    // What the last successful load was asked for.
    std::optional<std::string> config_json;
    bool from_files = false;
    // Makes an ensemble that is wanted and does not serve.
    std::optional<LoadRequest> awaiting;
    // Why the last load failed; whether it could not even be read.
    Status fault;
    bool unreadable = false;
  };

  Status CheckOwnLocked(const std::string& name, ServableKind kind) const BRAID_REQUIRES(mutex_);
  // The entry of a name that is the config.json's, and of this kind; null when there is none.
  Entry* FindOwn(const std::string& name, ServableKind kind) BRAID_REQUIRES(mutex_);
  void ForgetIfGone(const std::string& name) BRAID_REQUIRES(mutex_);
  Status CheckFreeLocked(const std::string& name) const BRAID_REQUIRES(mutex_);
  Status TakeName(const std::string& name, Entry& entry) BRAID_REQUIRES(mutex_);
  Status CheckUnclaimedLocked(const std::set<std::string>& names) const BRAID_REQUIRES(mutex_);
  void NoteFolderLocked(const std::string& name, Entry& entry, bool on_disk) BRAID_REQUIRES(mutex_);
  // Takes a version out of `served` into `leaving`.
  void RetireVersion(const std::string& name, Entry& entry, int64_t version, RetiredServables& leaving)
      BRAID_REQUIRES(mutex_);
  void SetState(const std::string& name, const Entry& entry, int64_t version, VersionState state,
                const std::string& reason) BRAID_REQUIRES(mutex_);
  void EndDrain(const std::string& name, int64_t version, uint64_t ticket);
  bool IsOfConfigLocked(const std::string& name) const BRAID_REQUIRES(mutex_);
  bool DrainsLocked() const BRAID_REQUIRES(mutex_);
  bool AwaitsConfig(const std::string& ensemble) const BRAID_REQUIRES(mutex_);
  DependencyGraph::BuildOf Builds() const BRAID_REQUIRES(mutex_);

  Catalog& catalog_;
  Drains& drains_;
  Logger& log_;

  mutable Mutex mutex_;
  mutable CondVar drained_;
  bool closed_ BRAID_GUARDED_BY(mutex_) = false;
  std::map<std::string, Entry> entries_ BRAID_GUARDED_BY(mutex_);
  DependencyGraph graph_ BRAID_GUARDED_BY(mutex_);
  uint64_t last_ticket_ BRAID_GUARDED_BY(mutex_) = 0;
  uint64_t last_build_ BRAID_GUARDED_BY(mutex_) = 0;  // of the config.json's
};

}  // namespace braid
