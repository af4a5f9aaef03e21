// Catalog: the servables by name and version, with their states.
//
// The repository writes it; all other code only reads. A reader on the request path takes no lock. It keeps a
// snapshot and renews it only when the catalog has changed.
//
//   CatalogReader reader(catalog);            // one per thread
//   BRAID_ASSIGN_OR_RETURN(auto handle, reader.Find("add_sub", -1));
//   Servable& servable = handle->get();       // not stopped while the handle lives
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/mutex.h"
#include "base/published.h"
#include "base/status.h"
#include "serving/error_texts.h"
#include "serving/on_demand_loader.h"
#include "serving/servable.h"

namespace braid {

enum class VersionState : unsigned char { kUnavailable, kLoading, kReady, kUnloading };
// "UNAVAILABLE", "LOADING", "READY", "UNLOADING".
std::string_view VersionStateName(VersionState state);
// "model", "ensemble", "pipeline", "graph".
std::string_view ServableKindName(ServableKind kind);

// One line of the repository index.
struct IndexEntry {
  std::string name;
  // nullopt for a model that was never loaded; the index lists it by name only.
  std::optional<int64_t> version;
  VersionState state = VersionState::kUnavailable;
  std::string reason;
  // Why the version is kUnavailable: kOk after an unload, otherwise the error of its load.
  StatusCode failure = StatusCode::kOk;
  // The servable's kind; without a servable, the kind given to SetState().
  ServableKind kind = ServableKind::kModel;
};

class Catalog {
 public:
  // Errors for missing names and versions use the texts of `dialect`.
  explicit Catalog(Dialect dialect = Dialect::kTriton) : Catalog(dialect, {}, false) {}
  // `roots` and `verbose_errors` go to ErrorTexts.
  Catalog(Dialect dialect, std::vector<std::string> roots, bool verbose_errors);
  ~Catalog();

  // Adds a model without versions ("in the repository, never loaded"). Does not change a known model.
  void AddModel(const std::string& name);
  // Sets whether requests load the model while no version of it is READY. Lookups then fail with
  // Fault::kLoadsOnDemand, and the model counts as ready for AllReady(). Ignored for unknown models.
  void SetOnDemand(const std::string& name, bool on_demand);
  // Removes a model and all its versions.
  void RemoveModel(const std::string& name);
  // Sets why a model without versions has none; "" clears the reason. Ignored for unknown models.
  void SetReason(const std::string& name, std::string reason);
  // Sets state and reason of a version. Requests no longer find it. REQUIRES: `state` is not kReady.
  void SetState(const std::string& name, int64_t version, VersionState state, std::string reason);
  // The same with IndexEntry's `failure` and `kind`, for servables of a config.json.
  void SetState(const std::string& name, int64_t version, VersionState state, std::string reason,
                StatusCode failure, ServableKind kind);
  // Sets only the reason, and only while the version is in `state`: the progress of a long load.
  void SetReason(const std::string& name, int64_t version, VersionState state, std::string reason);
  // Makes the version serve. Returns the servable that it replaces, if any, so that the caller can drain it.
  std::shared_ptr<Servable> Publish(std::shared_ptr<Servable> servable);

  // Returns the index, sorted by name, then version. With `ready_only`, only READY versions whose servable
  // reports ready. Otherwise a READY version whose servable is not ready appears as UNAVAILABLE, with the
  // servable's reason.
  std::vector<IndexEntry> Index(bool ready_only) const;
  // Returns every ready version of every model, for statistics, metrics and the table at start.
  std::vector<std::shared_ptr<Servable>> All() const;
  // The same for one model; -1 means all its versions. Errors: as for Find().
  Result<std::vector<std::shared_ptr<Servable>>> Versions(const std::string& name, int64_t version) const;
  // Returns whether the version exists in any state; -1 means any version.
  bool Knows(std::string_view name, int64_t version) const;
  // Returns one ready version, or the highest when `version` is -1. Takes a lock briefly, so the request path
  // uses CatalogReader or ServableReference instead. Errors: as for CatalogReader::Find().
  Result<std::shared_ptr<Servable>> Find(std::string_view name, int64_t version) const;
  // Returns the reason why Find() finds nothing, in the texts of the dialect. For servables of a config.json
  // it also tells their state (retired, not loaded yet). Takes a lock briefly.
  Status WhyNotFound(std::string_view name, int64_t version) const;
  // Returns whether a request would load the model now, and its last load has not failed.
  bool IsReadyOnDemand(std::string_view name, int64_t version) const;
  // Set once, before requests arrive; outlives them. Null without --load-on-demand.
  void set_on_demand_loader(OnDemandLoader* loader) { on_demand_loader_ = loader; }
  OnDemandLoader* on_demand_loader() const { return on_demand_loader_; }
  Dialect dialect() const { return dialect_; }
  // Turns errors of servables into the texts that clients get.
  ErrorTexts& error_texts() { return error_texts_; }
  const ErrorTexts& error_texts() const { return error_texts_; }
  // Rises with every change that affects Find().
  uint64_t generation() const { return snapshot_.generation(); }
  // Returns whether each version is READY with a ready servable, or unloaded, or unloading while another
  // version of its model serves. Without the last case, load balancers would avoid the server at each change
  // of a model.
  bool AllReady() const;

 private:
  friend class CatalogReader;
  struct Version {
    VersionState state = VersionState::kUnavailable;
    std::string reason;
    std::shared_ptr<Servable> servable;  // set while READY
    StatusCode failure = StatusCode::kOk;
    ServableKind kind = ServableKind::kModel;
    Dialect dialect = Dialect::kTriton;
  };
  struct TransparentHash {
    using is_transparent = void;
    size_t operator()(std::string_view text) const { return std::hash<std::string_view>{}(text); }
  };
  // The view of the request path: the ready versions, highest last.
  struct Snapshot {
    std::unordered_map<std::string, std::map<int64_t, std::shared_ptr<Servable>>, TransparentHash,
                       std::equal_to<>>
        models;
  };

  void Rebuild() BRAID_REQUIRES(mutex_);
  // Whether the model is loaded on demand and has no READY version. `versions` are its.
  bool LoadsOnDemandLocked(std::string_view name, const std::map<int64_t, Version>& versions) const
      BRAID_REQUIRES(mutex_);

  const Dialect dialect_;
  OnDemandLoader* on_demand_loader_ = nullptr;
  ErrorTexts error_texts_;
  // Not held while servables are asked for their readiness: a servable that depends on others looks them up
  // here.
  mutable Mutex mutex_;
  std::map<std::string, std::map<int64_t, Version>, std::less<>> models_ BRAID_GUARDED_BY(mutex_);
  std::map<std::string, std::string, std::less<>> reasons_
      BRAID_GUARDED_BY(mutex_);  // of models without versions
  std::set<std::string, std::less<>> on_demand_ BRAID_GUARDED_BY(mutex_);
  Published<Snapshot> snapshot_;
};

// One thread's view of the catalog. Not thread-safe.
class CatalogReader {
 public:
  explicit CatalogReader(const Catalog& catalog) : catalog_(catalog), snapshot_(catalog.snapshot_) {}

  // Returns the servable of a version, or of the highest ready version when `version` is -1. Pipelines and
  // graphs have one version, which answers to any number. Errors: as Catalog::WhyNotFound(). Those of Triton
  // are NOT_FOUND "Request for unknown model: 'm' is not found", "... 'm' version 9 is not found" and "...
  // 'm' has no available versions".
  Result<std::unique_ptr<ServableHandle>> Find(std::string_view name, int64_t version);

 private:
  const Catalog& catalog_;
  Published<Catalog::Snapshot>::Reader snapshot_;
};

}  // namespace braid
