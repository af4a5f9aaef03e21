// Catalog: which servables there are, by name and version, with their states.
//
// The repository writes it; everybody else reads. A reader on a request's path takes no lock: it looks at a
// snapshot that it keeps and renews only when the catalog has changed.
//
//   CatalogReader reader(catalog);            // one a thread
//   BRAID_ASSIGN_OR_RETURN(auto handle, reader.Find("add_sub", -1));
//   Servable& servable = handle->get();       // not stopped while the handle lives
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/mutex.h"
#include "base/published.h"
#include "base/status.h"
#include "serving/error_texts.h"
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
  // Nothing for a model that was never loaded: it is listed by its name alone.
  std::optional<int64_t> version;
  VersionState state = VersionState::kUnavailable;
  std::string reason;
  // Why the version is kUnavailable: kOk when it was taken away, else what its load failed with.
  StatusCode failure = StatusCode::kOk;
  // Of the servable when there is one, or that was given with the state.
  ServableKind kind = ServableKind::kModel;
};

class Catalog {
 public:
  // The texts of what is not found are those of `dialect`.
  explicit Catalog(Dialect dialect = Dialect::kTriton) : Catalog(dialect, {}, false) {}
  // The others are for ErrorTexts.
  Catalog(Dialect dialect, std::vector<std::string> roots, bool verbose_errors);
  ~Catalog();

  // Makes a model known without versions ("in the repository, never loaded"). Known models stay as they are.
  void AddModel(const std::string& name);
  // Forgets a model and all its versions.
  void RemoveModel(const std::string& name);
  // Why a model without versions has none; "" for no reason. Of models that are not known nothing is kept.
  void SetReason(const std::string& name, std::string reason);
  // Sets state and reason of a version that is not ready (any but kReady); requests no longer find it.
  void SetState(const std::string& name, int64_t version, VersionState state, std::string reason);
  // The same with IndexEntry's `failure` and `kind`, for what came from a config.json.
  void SetState(const std::string& name, int64_t version, VersionState state, std::string reason,
                StatusCode failure, ServableKind kind);
  // Only the reason, and only while the version is in `state`: progress of a long load.
  void SetReason(const std::string& name, int64_t version, VersionState state, std::string reason);
  // The version serves from now on; takes the place of the servable that served it before, which is returned
  // so that its drain can begin.
  std::shared_ptr<Servable> Publish(std::shared_ptr<Servable> servable);

  // By name, then version. With `ready_only`, versions that are READY and whose servable says that it is
  // ready. A READY version whose servable is not ready is listed as UNAVAILABLE with the servable's reason.
  std::vector<IndexEntry> Index(bool ready_only) const;
  // Every ready version of every model, for statistics, metrics and the table at start.
  std::vector<std::shared_ptr<Servable>> All() const;
  // The same of one model; a version of -1 means all of them. Errors: as for Find.
  Result<std::vector<std::shared_ptr<Servable>>> Versions(const std::string& name, int64_t version) const;
  // Whether there is such a version in any state; a version of -1 means any.
  bool Knows(std::string_view name, int64_t version) const;
  // One ready version, or the highest when `version` is -1. Takes a lock for a moment: a reader on a
  // request's path uses CatalogReader or ServableReference. Errors: as for CatalogReader::Find().
  Result<std::shared_ptr<Servable>> Find(std::string_view name, int64_t version) const;
  // Why Find() finds nothing, in the texts of the dialect; for what came from a config.json also its state
  // (retired, not loaded yet). Takes a lock for a moment.
  Status WhyNotFound(std::string_view name, int64_t version) const;
  Dialect dialect() const { return dialect_; }
  // How the errors of what is served are told to clients.
  ErrorTexts& error_texts() { return error_texts_; }
  const ErrorTexts& error_texts() const { return error_texts_; }
  // Rises with every change of what Find() can find.
  uint64_t generation() const { return snapshot_.generation(); }
  // Whether every version is READY with a ready servable, was unloaded, or is unloading while another version of its model
  // serves: balancers would send the server nothing at each change of a model else.
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
  // What a request needs to know: the ready versions, highest last.
  struct Snapshot {
    std::unordered_map<std::string, std::map<int64_t, std::shared_ptr<Servable>>, TransparentHash,
                       std::equal_to<>>
        models;
  };

  void Rebuild() BRAID_REQUIRES(mutex_);

  const Dialect dialect_;
  ErrorTexts error_texts_;
  // Servables are asked without it whether they are ready, since one that refers to others looks those up.
  mutable Mutex mutex_;
  std::map<std::string, std::map<int64_t, Version>, std::less<>> models_ BRAID_GUARDED_BY(mutex_);
  std::map<std::string, std::string> reasons_ BRAID_GUARDED_BY(mutex_);  // of models without versions
  Published<Snapshot> snapshot_;
};

// One thread's view of the catalog. Not for use by two threads at once.
class CatalogReader {
 public:
  explicit CatalogReader(const Catalog& catalog) : catalog_(catalog), snapshot_(catalog.snapshot_) {}

  // The servable of a version, or of the highest ready version when `version` is -1. Pipelines and graphs
  // have one version, which is found whatever version is asked for. Errors: as Catalog::WhyNotFound();
  // Triton's are NOT_FOUND "Request for unknown model: 'm' is not found", "... 'm' version 9 is not found",
  // "... 'm' has no available versions".
  Result<std::unique_ptr<ServableHandle>> Find(std::string_view name, int64_t version);

 private:
  const Catalog& catalog_;
  Published<Catalog::Snapshot>::Reader snapshot_;
};

}  // namespace braid
