// ServableTable: the state of every servable: its owner, its serving versions, loads and drains in progress,
// and the dependencies of ensembles and pipelines.
//
// The table writes the catalog. One mutex guards both; it is never held while files are read or servables are
// built.
//
// A name belongs to the source that brought it first, a model folder or the config.json. A name of a
// config.json stays known after its entry is removed, and another kind may take it over. A model folder's
// name is forgotten when it is neither on disk nor in memory, so that names in requests cannot fill the
// memory.
//
// A load from a model folder claims its model first, so that no other load of it runs meanwhile. It records
// its progress in the table:
//
//   BRAID_RETURN_IF_ERROR(table.Claim({"m"}));
//   if (table.NotePlan(request, plan)) ...                          // nothing has changed
//   BRAID_ASSIGN_OR_RETURN(auto versions, table.BeginBuilds("m", plan.keys));
//   ...                                                             // build them; no lock is held
//
//   ServableTable::RetiredServables leaving;
//   if (!table.Serve(request, plan, built, leaving)) ...            // the server exits
//   table.Drain(std::move(leaving));
//   table.Release("m", status);
//
// Between Claim() and Release() only Close() and ending drains change the model's state from outside. The
// config.json's names need no claim, because its passes run one after another.
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

// Returns the first part of a failed load's message; the versions' faults follow.
std::string LoadFailed(const std::string& model);

// Thread-safe. The constructor's references outlive the table.
class ServableTable {
 public:
  using Built = std::map<int64_t, std::shared_ptr<Servable>>;
  // Servables that requests no longer find and that must be drained, each with the ticket of its drain. The
  // ticket is 0 if another build has replaced the servable.
  using RetiredServables = std::vector<std::pair<std::shared_ptr<Servable>, uint64_t>>;

  // `on_demand`: requests load the models of model folders.
  ServableTable(Catalog& catalog, Drains& drains, Logger& log, bool on_demand = false)
      : catalog_(catalog), drains_(drains), log_(log), on_demand_(on_demand) {}

  // ---- names of the config.json ----

  // Sets the names in the file. Free names are taken at once, and are in the catalog before anything is
  // built. Names that the file no longer has stay known, and another kind may take them over.
  void Want(const std::set<std::pair<std::string, ServableKind>>& wanted);
  // Checks whether Own() would succeed. Errors: as Own().
  Status CheckOwn(const std::string& name, ServableKind kind) const;
  // Takes the name for this kind and lists it in the catalog. Retires the versions of another kind that is no
  // longer wanted. Errors: ALREADY_EXISTS if the name belongs to another wanted kind or to a model folder.
  Status Own(const std::string& name, ServableKind kind);

  // The next four functions do nothing after Close(), or if the name has another kind now.
  //
  // Marks a version, which does not serve, as LOADING.
  void SetLoading(const std::string& name, int64_t version, ServableKind kind);
  // Marks the version as failed; a serving one is moved to `leaving`.
  void SetFailed(const std::string& name, int64_t version, ServableKind kind, const Status& fault,
                 RetiredServables& leaving);
  // Publishes the version; the one it replaces is moved to `leaving`. Returns false if nothing has changed.
  bool Serve(std::shared_ptr<Servable> servable, RetiredServables& leaving);
  // Removes the version and moves it to `leaving`.
  void Retire(const std::string& name, int64_t version, ServableKind kind, RetiredServables& leaving);

  // ---- model folders on disk ----

  // Records the complete list of model folders.
  void NoteFolders(const std::set<std::string>& names);
  // Records whether a load has found one model's folder. REQUIRES: claimed.
  void NoteFolder(const std::string& name, bool on_disk);
  // Whether polling has to load a model: it does not serve, or its folder has changed since the last try.
  // Without a fingerprint, a serving model is not loaded again.
  bool NeedsLoad(const std::string& name, std::optional<uint64_t> fingerprint) const;
  // Returns the request that loads a model again after its files have changed; nullopt if it serves from a
  // load request's files, was unloaded, or was never loaded.
  std::optional<LoadRequest> ReloadOf(const std::string& name) const;
  // Returns the models that serve from folders which are not in `names`.
  std::vector<std::string> GoneFrom(const std::set<std::string>& names) const;

  // ---- claims ----

  // Claims all of the names or none, so that two loads with common models do not block each other half-way.
  // Errors: UNAVAILABLE if one of them is claimed already.
  Status Claim(const std::set<std::string>& names);
  // Releases the claim; `fault` is the load's result.
  void Release(const std::string& name, const Status& fault);
  // Checks whether Claim() would succeed. Errors: as Claim().
  Status CheckUnclaimed(const std::set<std::string>& names) const;
  // The number of releases so far; and waits until there are more. Returns false if that takes past
  // `deadline_ns`.
  uint64_t releases() const;
  bool AwaitRelease(uint64_t releases, int64_t deadline_ns) const;

  // ---- the steps of a load from a model folder; all REQUIRE that the model is claimed ----

  // Errors: ALREADY_EXISTS if the name belongs to the config.json.
  Status CheckFree(const std::string& name) const;
  // Records the request of the load that begins.
  void NoteRequest(const LoadRequest& request);
  // Records that the load could not read the model. `reason` is for clients; "" for a missing model.
  void NoteUnreadable(const std::string& name, const std::string& reason);
  // Records the load's plan, and completes it with the builds of an ensemble's models. Returns true if the
  // served versions already match the plan.
  bool NotePlan(const LoadRequest& request, LoadPlan& plan);
  // Returns the versions of a plan (with their keys) that have to be built; versions served with the same key
  // are left out. Versions that do not serve meanwhile become LOADING. Errors: as CheckFree().
  Result<std::vector<int64_t>> BeginBuilds(const std::string& name, const std::map<int64_t, uint64_t>& keys);
  // Sets a build's progress text.
  void NoteProgress(const std::string& name, int64_t version, const std::string& text);
  // Publishes the built versions together, and retires the versions that are not in the plan. REQUIRES: every
  // build has succeeded. Returns false, and changes nothing, after Close().
  bool Serve(const LoadRequest& request, const LoadPlan& plan, Built built, RetiredServables& leaving);
  // Ends a load whose builds failed or cannot be used. LOADING versions become UNAVAILABLE, with their text
  // of `reasons` or else "unloaded".
  void AbandonBuilds(const std::string& name, const std::map<int64_t, std::string>& reasons);

  // Retires all versions of a model folder's model; other names are left alone. Errors: UNAVAILABLE while the
  // model is claimed.
  Status Unload(const std::string& name, RetiredServables& leaving);

  // ---- models on demand ----

  // A model of a model folder with serving versions, or with versions that are draining.
  struct Resident {
    std::string name;
    std::vector<std::shared_ptr<Servable>> versions;  // that serve
    bool kept = false;                                // see Keep()
    bool draining = false;
  };
  std::vector<Resident> Residents() const;
  // Records that a client or the server's start has loaded the model, so that only a client unloads it.
  // Requests load it again if it fails. Ignored for unknown models.
  void Keep(const std::string& name);
  // Records that a client wants the model unloaded, so that requests do not load it.
  void Forgo(const std::string& name);

  // ---- drains and shutdown ----

  // Closes the gates of the servables, and stops each after its last request. Retired versions are then
  // reported as unloaded.
  void Drain(RetiredServables leaving);
  // Waits until no retired version drains. Returns false if that takes past `deadline_ns`.
  bool AwaitDrains(int64_t deadline_ns) const;
  // Begins the shutdown: no new version serves.
  void Close();
  bool closed() const;
  // Retires and drains everything, pipelines before their dependencies. REQUIRES: closed().
  void RetireAll();
  bool Serves(const std::string& name) const;
  // Sets the reason why serving versions are not those of the changed files; "" clears it. Any name.
  void NoteReload(const std::string& name, const std::string& reason);
  std::string ForClients(const Status& fault) const {
    return catalog_.error_texts().ForClients(fault.message());
  }
  // Returns the names that are still being loaded or drained.
  std::vector<std::string> Unfinished() const;

  // ---- ensembles and pipelines ----

  // Dependencies of a model that its dependents must not reload; nullopt otherwise. Such models are served
  // from a load request's files, or belong to the config.json. For the latter, the result is empty.
  std::optional<std::set<std::string>> KeptUses(const std::string& name) const;
  // Return the dependencies of all ensembles and pipelines, or of only those that were made.
  Dependencies uses() const;
  Dependencies made_uses() const;
  // Returns the end of the sentence "ensemble 'e' depends on 'm'", for a model without a loaded version.
  std::string WhyMissing(const std::string& name) const;

  // Claims the ensemble and returns the request that remakes it, if it is due; nullopt otherwise. It is due
  // if its models have newer builds, or if it has waited for a servable of the config.json that serves now.
  // It is tried once for each set of builds.
  std::optional<LoadRequest> ClaimIfDue(const std::string& ensemble);

  // Sets the dependencies of a pipeline with a new definition, and makes it due.
  void SetUses(const std::string& pipeline, DependencyGraph::Uses uses);
  // Whether it was never tried, or was last tried with other builds than the current ones.
  bool IsDue(const std::string& pipeline) const;
  // Records a try, and returns the key of the current builds.
  uint64_t NoteTry(const std::string& pipeline);
  // Records that the try with these builds has succeeded.
  void NoteMade(const std::string& pipeline, uint64_t key);
  uint64_t KeyOf(const DependencyGraph::Uses& uses) const;

 private:
  enum class Owner : unsigned char { kNone, kFolder, kConfig };

  struct Served {
    std::shared_ptr<Servable> servable;  // shared with the catalog and with requests in flight
    uint64_t build = 0;                  // for a folder: its key in the LoadPlan
  };
  struct Entry {
    Owner owner = Owner::kNone;
    std::map<int64_t, Served> served;
    // Retired versions with requests in flight, each with the ticket of the drain that will report it as
    // unloaded.
    std::map<int64_t, uint64_t> draining;

    // For a name of the config.json.
    ServableKind kind = ServableKind::kModel;
    bool wanted = false;

    // For a name of a model folder.
    bool claimed = false;
    bool on_disk = false;
    bool kept = false;
    // The versions that the current load has set to LOADING.
    std::set<int64_t> loading;
    // The folder's fingerprint at the last try, and at the last successful load.
    std::optional<uint64_t> tried;
    std::optional<uint64_t> loaded;
    // The request of the last load; nullopt after an unload, and for a request with files.
    std::optional<LoadRequest> asked;
    // The request of the last successful load.
    std::optional<std::string> config_json;
    bool from_files = false;
    // The request that makes an ensemble that is wanted and does not serve.
    std::optional<LoadRequest> awaiting;
    // The result of the last load, and whether the model could not even be read.
    Status fault;
    bool unreadable = false;
  };

  Status CheckOwnLocked(const std::string& name, ServableKind kind) const BRAID_REQUIRES(mutex_);
  // Returns the entry if the name belongs to the config.json and has this kind; null otherwise.
  Entry* FindOwn(const std::string& name, ServableKind kind) BRAID_REQUIRES(mutex_);
  void ForgetIfGone(const std::string& name) BRAID_REQUIRES(mutex_);
  Status CheckFreeLocked(const std::string& name) const BRAID_REQUIRES(mutex_);
  Status TakeName(const std::string& name, Entry& entry) BRAID_REQUIRES(mutex_);
  Status CheckUnclaimedLocked(const std::set<std::string>& names) const BRAID_REQUIRES(mutex_);
  void NoteFolderLocked(const std::string& name, Entry& entry, bool on_disk) BRAID_REQUIRES(mutex_);
  // Moves a version from `served` to `leaving`.
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
  const bool on_demand_;

  mutable Mutex mutex_;
  mutable CondVar changed_;  // notified when a drain ends and when a claim is released
  uint64_t releases_ BRAID_GUARDED_BY(mutex_) = 0;
  bool closed_ BRAID_GUARDED_BY(mutex_) = false;
  std::map<std::string, Entry> entries_ BRAID_GUARDED_BY(mutex_);
  DependencyGraph graph_ BRAID_GUARDED_BY(mutex_);
  uint64_t last_ticket_ BRAID_GUARDED_BY(mutex_) = 0;
  uint64_t last_build_ BRAID_GUARDED_BY(mutex_) = 0;  // for servables of the config.json
};

}  // namespace braid
