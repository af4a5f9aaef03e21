#include "repository/manager.h"

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <limits>
#include <set>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/folder_watch.h"
#include "base/guard.h"
#include "base/mutex.h"
#include "base/utf8.h"
#include "config/config_file.h"
#include "config/model_name.h"
#include "repository/config_graphs.h"
#include "repository/config_models.h"
#include "repository/config_pipelines.h"
#include "repository/config_plan.h"
#include "repository/drains.h"
#include "repository/folder_loads.h"
#include "repository/model_folders.h"
#include "repository/model_memory.h"
#include "repository/on_demand_loads.h"
#include "repository/parallel.h"
#include "repository/repository_life.h"
#include "repository/servable_table.h"
#include "serving/faults.h"
#include "serving/readiness_round.h"

namespace braid {
namespace {

constexpr const char* kWatchPrefix = "--watch: ";
constexpr const char* kNotAllLoaded = "failed to load all models";

// The texts of OpenVINO Model Server's REST API; the reasons are in the log.
constexpr const char* kUnreadable = "Config file not found or cannot open.";
constexpr const char* kConfigFailed = "Reloading config file failed. Check server logs for more info.";
constexpr const char* kVersionsFailed = "Reloading models versions failed. Check server logs for more info.";

LoadRequest FromDisk(const std::string& model) {
  return {.model_name = model, .config_json = {}, .files = {}};
}

Status CheckOptions(const FolderOptions& options) {
  const auto& startup = options.startup_models;
  if (options.model_repositories.empty())
    return InvalidArgumentError("at least one model repository must be given");
  if (startup.size() > 1 && std::find(startup.begin(), startup.end(), "*") != startup.end()) {
    return InvalidArgumentError(
        "Wildcard model name '*' must be the ONLY startup model if specified at all.");
  }
  if (!startup.empty() && options.control_mode != ControlMode::kExplicit) {
    return InvalidArgumentError("models to load at start need the explicit model control mode");
  }
  for (const std::string& name : startup) {
    if (name != "*") BRAID_RETURN_IF_ERROR(CheckModelName(name));
  }
  if (options.control_mode == ControlMode::kPoll && options.poll_seconds <= 0) {
    return InvalidArgumentError("the poll interval of the model repository must be at least one second");
  }
  return OkStatus();
}

}  // namespace

// Decides when servables are loaded and unloaded, and in which order. The ServableTable has the served
// versions; the planners know how to load a servable.
class Manager::Impl {
 public:
  Impl(ManagerOptions options, Catalog& catalog, FolderMakers folder_makers, ConfigMakers config_makers,
       Logger& log)
      : options_(std::move(options)),
        catalog_(catalog),
        config_makers_(std::move(config_makers)),
        log_(log),
        drains_(options_.exit_timeout_seconds, options_.sequence_vault),
        table_(catalog, drains_, log, options_.folders && options_.folders->on_demand),
        folders_(options_.folders ? options_.folders->model_repositories : std::vector<std::string>(),
                 options_.storage,
                 options_.folders && options_.folders->control_mode == ControlMode::kExplicit,
                 options_.load_thread_count),
        pipelines_(config_makers_, table_, drains_, log),
        models_(
            options_, config_makers_, table_, drains_, [this] { Run({}); }, log),
        graphs_(options_, config_makers_, table_, drains_, log) {
    if (!options_.folders) return;
    loads_ = std::make_unique<FolderLoads>(options_, folders_, table_, drains_, std::move(folder_makers),
                                           catalog.error_texts(), log);
    if (!options_.folders->on_demand) return;
    memory_ = std::make_unique<ModelMemory>(options_.folders->models_memory_max_bytes, folders_, table_,
                                            catalog, log);
    on_demand_ = std::make_unique<OnDemandLoads>(
        OnDemandLoads::Options{.wait_ns = load_wait_ns(), .threads = options_.load_thread_count},
        OnDemandLoads::Calls{
            .load = [this](const std::string& model,
                           int64_t deadline_ns) { return LoadForRequest(model, deadline_ns); },
            .awaits =
                [this](const std::string& model, int64_t version) {
                  return catalog_.Find(model, version).status().fault() == Fault::kLoadsOnDemand;
                },
            .refresh = [this] { Refresh(); },
            .count_memory =
                [this](OnDemandCounts& counts) {
                  counts.evicted = memory_->evictions();
                  counts.memory_bytes = memory_->used_bytes();
                  counts.memory_limit_bytes = memory_->max_bytes();
                }});
    catalog.set_on_demand_loader(on_demand_.get());
  }

  Status Start(Status& loaded);
  Status Shutdown(int64_t deadline_ns);
  std::optional<OvmsMetricsConfig> metrics() const {
    MutexLock lock(mutex_);
    return metrics_;
  }
  bool ScanFolders();
  Status Load(const LoadRequest& request);
  Status Unload(const std::string& name, bool unload_dependents, const ModelRights& rights);
  Result<bool> Reload();

  bool serving() const { return knows_models_ && !life_.exiting(); }
  bool started() const { return life_.serving() && (loads_ == nullptr || folders_serve_); }
  int64_t load_wait_ns() const {
    return options_.folders ? options_.folders->load_wait_ms * kMillisecondNs : 0;
  }
  bool strict() const { return options_.folders && options_.folders->strict_readiness; }
  bool server_ready() const { return started() && (!strict() || catalog_.AllReady()); }
  void CheckServerReady(std::function<void(bool)> done) const;

 private:
  // The result of one pass over the config.json.
  struct Findings {
    bool changed = false;
    Status unreadable;  // the file cannot be read
    Status config;      // the file's text is invalid, or a new text could not be applied
    Status versions;    // other failures to load
  };
  // The state of watching.
  struct Watched {
    // The fingerprints of model folders when they were last loaded, or found not to be wanted.
    std::map<std::string, std::optional<uint64_t>> prints;
    // How many loads in a row have ended with other files than those they began with.
    std::map<std::string, int> writes;
    std::set<std::string> told;  // problems that were logged
  };

  void Run(const Steps& steps);

  Result<std::set<std::string>> FolderNames();
  std::optional<uint64_t> PrintOf(const std::string& name) const;
  Result<std::set<std::string>> BeginFolders();
  std::vector<LoadRequest> StartupSet(const std::set<std::string>& names) const;
  Status CheckTakesLoads() const;
  Status LoadFolders(const std::vector<LoadRequest>& requests, FolderLoads::Outcome& outcome);
  Status UnloadFolder(const std::string& name);
  Status UnloadWith(const std::string& name, bool unload_dependents, const ModelRights& rights);

  OnDemandLoads::Outcome LoadForRequest(const std::string& name, int64_t deadline_ns);
  Status LoadInto(const LoadRequest& request, int64_t deadline_ns, FolderLoads::Outcome& outcome);
  Status Patiently(const std::function<Status()>& act);
  void KeepLoaded(const std::vector<LoadRequest>& requests);
  void LoadUsedByConfig();
  void Refresh();

  Status ReadConfig() BRAID_REQUIRES(round_mutex_);
  bool ReadFile(bool retry, Findings& findings) BRAID_REQUIRES(round_mutex_);
  void NameFolders() BRAID_REQUIRES(round_mutex_);
  void PlanConfig(bool fresh, bool retry, Steps& steps) BRAID_REQUIRES(round_mutex_);
  void FinishConfig(bool fresh, bool retry, Findings& findings) BRAID_REQUIRES(round_mutex_);
  Findings Round(bool retry);

  Status StartPolling();
  void PollFolders();
  void PollConfig();

  Status WatchSources() BRAID_REQUIRES(round_mutex_);
  void FollowChanges();
  bool ApplyChanges(const FolderWatch::Changes& changes);
  std::optional<LoadRequest> LoadWanted(const std::string& name, std::optional<uint64_t> now) const;
  void NoteWrites(const std::vector<LoadRequest>& loaded);
  void LogChanges(const FolderWatch::Changes& changes) const;
  std::string TextsBeside() BRAID_REQUIRES(round_mutex_);

  const ManagerOptions options_;
  Catalog& catalog_;
  const ConfigMakers config_makers_;
  Logger& log_;
  Drains drains_;
  ServableTable table_;
  const ModelFolders folders_;
  std::unique_ptr<FolderLoads> loads_;        // null without model folders
  std::unique_ptr<ModelMemory> memory_;       // null if models are not loaded on demand
  std::unique_ptr<OnDemandLoads> on_demand_;  // likewise
  int64_t next_names_ns_ = 0;                 // SteadyNowNs(), of Refresh()
  ConfigPipelines pipelines_;
  ModelFolders::Skipped skipped_;       // used at the start, then by the polling thread
  std::unique_ptr<FolderWatch> watch_;  // used likewise, but for Wake(), under mutex_; null: does not watch
  Watched watched_;                     // likewise
  std::atomic<bool> folders_serve_{false};  // the model folders were readable at the start
  std::atomic<bool> knows_models_{false};   // the catalog has the names of the models to load

  Mutex round_mutex_;  // held during a whole pass over the config.json
  ConfigModels models_ BRAID_GUARDED_BY(round_mutex_);
  ConfigGraphs graphs_ BRAID_GUARDED_BY(round_mutex_);
  ConfigPlan plan_ BRAID_GUARDED_BY(round_mutex_);
  std::optional<std::string> text_ BRAID_GUARDED_BY(round_mutex_);  // the file's text when it was last read
  Status text_fault_ BRAID_GUARDED_BY(round_mutex_);                // the error in that text
  Status read_fault_ BRAID_GUARDED_BY(round_mutex_);                // why the file cannot be read now
  std::string texts_beside_ BRAID_GUARDED_BY(round_mutex_);         // of the files that it points to

  mutable Mutex mutex_;
  std::optional<OvmsMetricsConfig> metrics_ BRAID_GUARDED_BY(mutex_);
  RepositoryLife life_;
};

// ---- the order of loads ----

// Runs the steps, and remakes the ensembles and pipelines whose dependencies they replace or provide. A name
// comes after its dependencies, so that it is made only once.
void Manager::Impl::Run(const Steps& steps) {
  std::vector<std::vector<std::string>> order;
  {
    // The steps have claimed their names already, and release them when they run.
    const RetryingAllocation retrying;
    Dependencies uses = table_.uses();
    for (const auto& [name, step] : steps) uses[name] = step.uses;
    order = LoadOrder(uses);
  }
  for (const auto& group : order) {
    std::vector<const Step*> own;
    for (const std::string& name : group) {
      const RetryingAllocation retrying;
      if (const auto step = steps.find(name); step != steps.end()) own.push_back(&step->second);
    }
    ParallelFor(own.size(), options_.load_thread_count, [&own](size_t i) { own[i]->run(); });
    for (const std::string& name : group) {
      if (steps.contains(name) || table_.closed()) continue;
      if (pipelines_.Has(name)) {
        pipelines_.MakeIfDue(name);
      } else if (loads_ != nullptr) {
        loads_->MakeIfDue(name);
      }
    }
  }
}

// ---- starting and stopping ----

Status Manager::Impl::Start(Status& loaded) {
  const RepositoryLife::Work work(life_);
  if (!work.begun()) return UnavailableError("Server exiting");
  {
    MutexLock round(round_mutex_);
    if (options_.config) BRAID_RETURN_IF_ERROR(ReadConfig());
    if (options_.watch) {
      auto watch = FolderWatch::Create({.ignored = IsIgnored});
      if (!watch.ok()) return watch.status().WithPrefix(kWatchPrefix);
      {
        MutexLock lock(mutex_);
        watch_ = std::move(watch).value();
      }
      BRAID_RETURN_IF_ERROR(WatchSources());
    }
    std::set<std::string> names;
    if (loads_ != nullptr) {
      auto found = BeginFolders();
      loaded = found.status();
      folders_serve_ = found.ok();
      if (found.ok()) names = std::move(*found);
      if (options_.watch) {
        // Nothing but a start can mend this.
        BRAID_RETURN_IF_ERROR(loaded);
        for (const std::string& name : names) watched_.prints[name] = PrintOf(name);
      }
    }
    Steps steps;
    FolderLoads::Outcome outcome;
    if (options_.config) PlanConfig(true, true, steps);
    if (folders_serve_) loaded = loads_->Plan(StartupSet(names), steps, outcome);
    if (on_demand_ != nullptr && folders_serve_) BRAID_RETURN_IF_ERROR(on_demand_->Start());
    knows_models_ = options_.config.has_value() || folders_serve_;
    Run(steps);
    Findings findings;
    if (options_.config) FinishConfig(true, true, findings);
    if (on_demand_ != nullptr) KeepLoaded(StartupSet(names));
    if (on_demand_ != nullptr && options_.config) LoadUsedByConfig();
    std::string failed;
    for (const auto& [name, status] : outcome) {
      if (status.ok() || table_.Serves(name)) continue;
      failed += "\n" + status.message();
      if (failed.ends_with('\n')) failed.pop_back();
    }
    if (!failed.empty()) loaded = InternalError(kNotAllLoaded + failed);
  }
  drains_.Reap();
  BRAID_RETURN_IF_ERROR(life_.Serve());
  return StartPolling();
}

std::optional<uint64_t> Manager::Impl::PrintOf(const std::string& name) const {
  const auto folder = folders_.Open(name);
  return folder.ok() ? std::optional(FingerprintOf(folder->folder).whole) : std::nullopt;
}

std::vector<LoadRequest> Manager::Impl::StartupSet(const std::set<std::string>& names) const {
  const std::vector<std::string>& startup = options_.folders->startup_models;
  std::set<std::string> wanted(startup.begin(), startup.end());
  if (options_.folders->control_mode != ControlMode::kExplicit || wanted.contains("*")) wanted = names;
  std::vector<LoadRequest> requests;
  for (const std::string& name : wanted) requests.push_back(FromDisk(name));
  return requests;
}

Status Manager::Impl::Shutdown(int64_t deadline_ns) {
  life_.Exit();
  {
    MutexLock lock(mutex_);
    if (watch_ != nullptr) watch_->Wake();
  }
  table_.Close();
  if (on_demand_ != nullptr) on_demand_->Shutdown();
  if (loads_ != nullptr) loads_->BeginShutdown();
  drains_.BeginShutdown(catalog_, deadline_ns);
  table_.RetireAll();

  const int64_t end_ns = deadline_ns + Drains::kStopGraceNs;
  const bool loads_ended = life_.End(end_ns);
  if (!loads_ended || !drains_.WaitUntilEmpty(end_ns)) {
    std::string held_up;
    for (const std::string& name : table_.Unfinished()) {
      held_up += (held_up.empty() ? "'" : ", '") + name + "'";
    }
    if (!loads_ended && held_up.empty()) {
      return UnavailableError("a model or pipeline is still loading");
    }
    return UnavailableError("user code has not returned in " +
                            (held_up.empty() ? std::string("a replaced model") : held_up));
  }
  drains_.Reap();
  return OkStatus();
}

void Manager::Impl::CheckServerReady(std::function<void(bool)> done) const {
  const auto all = catalog_.All();
  if (!server_ready() || !strict() || all.empty()) {
    done(server_ready());
    return;
  }
  auto round = std::make_shared<ReadinessRound>(
      all.size(), [done = std::move(done)](const Readiness& readiness) { done(readiness.ready); });
  for (const auto& servable : all) servable->CheckReadiness(ReadinessRound::Answer(round));
}

Status Manager::Impl::StartPolling() {
  if (watch_ != nullptr) {
    BRAID_RETURN_IF_ERROR(life_.StartPolling("brd-poll", [this] { FollowChanges(); }));
  } else if (folders_serve_ && options_.folders->control_mode == ControlMode::kPoll) {
    BRAID_RETURN_IF_ERROR(life_.StartPolling("brd-poll", [this] { PollFolders(); }));
  }
  return options_.config ? life_.StartPolling("brd-config", [this] { PollConfig(); }) : OkStatus();
}

// ---- model folders ----

// Logs once per folder why it is not a model's.
Result<std::set<std::string>> Manager::Impl::FolderNames() {
  BRAID_RETURN_IF_ERROR(folders_.Refresh(log_));
  ModelFolders::Skipped skipped;
  BRAID_ASSIGN_OR_RETURN(const auto counts, folders_.Names(skipped));
  for (const auto& [name, why] : skipped) {
    const auto before = skipped_.find(name);
    if (before != skipped_.end() && before->second == why) continue;
    BRAID_LOG_WARNING(log_, "skipping a folder of the model repository: {}", why.message());
  }
  skipped_ = std::move(skipped);
  std::set<std::string> names;
  for (const auto& [name, count] : counts) names.insert(name);
  return names;
}

// Takes the free names for the model folders.
Result<std::set<std::string>> Manager::Impl::BeginFolders() {
  BRAID_RETURN_IF_ERROR(CheckOptions(*options_.folders));
  BRAID_ASSIGN_OR_RETURN(auto names, FolderNames());
  for (const std::string& misgiving : folders_.Misgivings()) BRAID_LOG_WARNING(log_, "{}", misgiving);
  loads_->RemoveAbandoned();
  table_.NoteFolders(names);
  return names;
}

Status Manager::Impl::LoadFolders(const std::vector<LoadRequest>& requests, FolderLoads::Outcome& outcome) {
  Steps steps;
  BRAID_RETURN_IF_ERROR(loads_->Plan(requests, steps, outcome));
  Run(steps);
  drains_.Reap();
  return OkStatus();
}

Status Manager::Impl::UnloadFolder(const std::string& name) {
  ServableTable::RetiredServables leaving;
  BRAID_RETURN_IF_ERROR(table_.Unload(name, leaving));
  table_.Drain(std::move(leaving));
  return OkStatus();
}

void Manager::Impl::PollFolders() {
  while (life_.Sleep(SteadyNowNs() + options_.folders->poll_seconds * kSecondNs)) {
    GuardedOrReport("brd-poll", [this] { (void)ScanFolders(); });
  }
}

// Returns false if another scan has to follow, because a client loads one of the models.
bool Manager::Impl::ScanFolders() {
  const RepositoryLife::Work work(life_);
  if (!work.begun()) return true;
  const auto names = FolderNames();
  if (!names.ok()) {
    // If a repository cannot be read for a while, its models are not unloaded.
    BRAID_LOG_ERROR(log_, "failed to poll the model repository: {}", names.status().message());
    return true;
  }
  std::vector<LoadRequest> to_load;
  std::map<std::string, std::optional<uint64_t>> prints;
  for (const std::string& name : *names) {
    // A model in two repositories has no fingerprint, so its serving version stays.
    prints[name] = PrintOf(name);
    if (auto request = LoadWanted(name, prints[name])) to_load.push_back(std::move(*request));
  }
  std::vector<std::string> gone = table_.GoneFrom(*names);
  // Clients can load hidden folders.
  if (watch_ != nullptr) std::erase_if(gone, IsIgnored);
  table_.NoteFolders(*names);
  bool unloaded = true;
  for (const std::string& name : gone) unloaded = UnloadFolder(name).ok() && unloaded;
  FolderLoads::Outcome outcome;
  const bool loaded = LoadFolders(to_load, outcome).ok();  // failures of models are logged
  if (watch_ != nullptr && loaded) {
    watched_.prints = std::move(prints);
    NoteWrites(to_load);
  }
  return unloaded && loaded;
}

// Load and unload requests are refused outside of explicit mode, and until the first loads have ended.
Status Manager::Impl::CheckTakesLoads() const {
  if (loads_ == nullptr) {
    return UnsupportedError(
        "to load or unload models of a config.json, change the file; POST /v1/config/reload applies it at "
        "once");
  }
  if (options_.folders->control_mode != ControlMode::kExplicit) {
    return UnavailableError("explicit model load / unload is not allowed if polling is enabled");
  }
  if (life_.exiting()) return UnavailableError("Server exiting");
  return started() ? OkStatus() : UnavailableError("Server not ready");
}

Status Manager::Impl::Load(const LoadRequest& request) {
  const RepositoryLife::Work work(life_);
  BRAID_RETURN_IF_ERROR(CheckTakesLoads());
  const std::string& name = request.model_name;
  BRAID_RETURN_IF_ERROR(CheckModelName(name));
  if (!request.files.empty() && !options_.folders->allow_file_overrides) {
    return UnsupportedError("load parameter 'file:" + Shortened(request.files.begin()->first) +
                            "' is not allowed, the server was started with --allow-file-overrides=false");
  }
  if (request.config_json && !options_.folders->allow_file_overrides) {
    folders_.Update(name);
    BRAID_RETURN_IF_ERROR(loads_->CheckOverride(request));
  }
  // If the folder exists, the index shows the same error as its state.
  if (!folders_.Open(name).ok()) BRAID_RETURN_IF_ERROR(CheckLoadableName(name));
  FolderLoads::Outcome outcome;
  const bool reloads = table_.Serves(name);
  const int64_t deadline_ns = SteadyNowNs() + load_wait_ns();
  BRAID_RETURN_IF_ERROR(Patiently([&] { return LoadInto(request, deadline_ns, outcome); }));
  if (on_demand_ != nullptr && outcome.at(name).ok()) {
    if (!reloads) table_.Keep(name);
    on_demand_->Forget(name);
  }
  return outcome.at(name);
}

Status Manager::Impl::Unload(const std::string& name, bool unload_dependents, const ModelRights& rights) {
  const RepositoryLife::Work work(life_);
  BRAID_RETURN_IF_ERROR(CheckTakesLoads());
  BRAID_RETURN_IF_ERROR(CheckServableName(name));
  const Status status = Patiently([&] { return UnloadWith(name, unload_dependents, rights); });
  drains_.Reap();
  // Its pipelines are remade on a thread of the manager, because that may take long.
  if (options_.config) life_.Wake();
  return status;
}

Status Manager::Impl::UnloadWith(const std::string& name, bool unload_dependents, const ModelRights& rights) {
  std::set<std::string> used;
  if (unload_dependents) {
    used = UsedBy(table_.made_uses(), name);
    if (rights) {
      for (const std::string& model : used) BRAID_RETURN_IF_ERROR(rights(model));
    }
    std::set<std::string> all = used;
    all.insert(name);
    BRAID_RETURN_IF_ERROR(table_.CheckUnclaimed(all));
  }
  // A request inside the ensemble keeps its models until it ends; a new request no longer finds the ensemble.
  table_.Forgo(name);
  BRAID_RETURN_IF_ERROR(UnloadFolder(name));
  for (const std::string& model : used) {
    table_.Forgo(model);
    BRAID_RETURN_IF_ERROR(UnloadFolder(model));
  }
  return OkStatus();
}

// ---- models on demand ----

// Repeats a load or unload that met a load on demand of the same models.
Status Manager::Impl::Patiently(const std::function<Status()>& act) {
  const int64_t deadline_ns = SteadyNowNs() + load_wait_ns();
  for (;;) {
    const uint64_t releases = table_.releases();
    Status status = act();
    const bool claimed = status.code() == StatusCode::kUnavailable && on_demand_ != nullptr;
    if (!claimed || !table_.AwaitRelease(releases, deadline_ns)) return status;
  }
}

// Makes room for a load, and loads. Errors: those of FolderLoads::Plan(); all others are in `outcome`.
Status Manager::Impl::LoadInto(const LoadRequest& request, int64_t deadline_ns,
                               FolderLoads::Outcome& outcome) {
  ModelMemory::Reservation room;
  std::set<std::string> models = {request.model_name};
  if (memory_ != nullptr && request.files.empty()) {
    models = loads_->LoadedWith(request);
    auto reserved = memory_->Reserve(models, deadline_ns);
    if (!reserved.ok()) {
      outcome[request.model_name] = reserved.status();
      return OkStatus();
    }
    room = std::move(*reserved);
  }
  BRAID_RETURN_IF_ERROR(LoadFolders({request}, outcome));
  if (memory_ == nullptr || !outcome.at(request.model_name).ok()) return OkStatus();
  if (Status settled = memory_->Settle(models, room); !settled.ok())
    outcome[request.model_name] = std::move(settled);
  return OkStatus();
}

OnDemandLoads::Outcome Manager::Impl::LoadForRequest(const std::string& name, int64_t deadline_ns) {
  const RepositoryLife::Work work(life_);
  if (!work.begun()) return {UnavailableError("Server exiting")};
  for (;;) {
    if (table_.Serves(name)) return {};
    const uint64_t releases = table_.releases();
    FolderLoads::Outcome outcome;
    const Status begun = LoadInto(FromDisk(name), deadline_ns, outcome);
    if (begun.ok()) {
      const Status& loaded = outcome.at(name);
      return {loaded, loaded.code() != StatusCode::kUnavailable};  // not if too many models are in use
    }
    // One of its models is being loaded or unloaded.
    if (!table_.AwaitRelease(releases, deadline_ns)) return {begun, false};
  }
}

// Keeps what the start has loaded.
void Manager::Impl::KeepLoaded(const std::vector<LoadRequest>& requests) {
  std::set<std::string> models;
  for (const LoadRequest& request : requests) {
    table_.Keep(request.model_name);
    models.merge(loads_->LoadedWith(request));
  }
  ModelMemory::Reservation none;
  if (const Status fits = memory_->Settle(models, none); !fits.ok())
    BRAID_LOG_ERROR(log_, "the models of --load-model do not fit: {}", fits.message());
}

// Loads the models that pipelines and graphs of the config.json use: these do not wait for a load.
void Manager::Impl::LoadUsedByConfig() {
  std::set<std::string> used;
  for (const auto& [name, uses] : table_.uses()) {
    if (pipelines_.Has(name)) used.insert(uses.begin(), uses.end());
  }
  for (const auto& servable : catalog_.All()) {
    if (servable->info().kind != ServableKind::kGraph) continue;
    for (const ServableUse& use : servable->uses()) used.insert(use.name);
  }
  std::vector<LoadRequest> requests;
  for (const std::string& name : used) {
    if (catalog_.Find(name, -1).status().fault() == Fault::kLoadsOnDemand) requests.push_back(FromDisk(name));
  }
  FolderLoads::Outcome outcome;
  (void)LoadFolders(requests, outcome);  // failures are logged
  KeepLoaded(requests);
}

// Finds new model folders, and measures models.
void Manager::Impl::Refresh() {
  memory_->Refresh();
  drains_.Reap();
  if (SteadyNowNs() < next_names_ns_) return;
  next_names_ns_ = SteadyNowNs() + options_.folders->poll_seconds * kSecondNs;
  const RepositoryLife::Work work(life_);
  if (!work.begun()) return;
  if (const auto names = FolderNames(); names.ok()) table_.NoteFolders(*names);
}

// ---- the config.json ----

// Reads the configuration at the start. Errors: the server must not start.
Status Manager::Impl::ReadConfig() {
  const ConfigOptions& config = *options_.config;
  if (!config.config_path.empty()) {
    Findings findings;
    ReadFile(false, findings);
    BRAID_RETURN_IF_ERROR(findings.unreadable);
    BRAID_RETURN_IF_ERROR(findings.config);
  } else if (config.single_model) {
    BRAID_ASSIGN_OR_RETURN(plan_, PlanSingleModel(*config.single_model, log_));
    NameFolders();
  } else {
    return InvalidArgumentError("neither a config.json nor a model is given");
  }
  MutexLock lock(mutex_);
  metrics_ = plan_.metrics;
  return OkStatus();
}

// Returns true if there is a new plan. Changes are detected by content.
bool Manager::Impl::ReadFile(bool retry, Findings& findings) {
  const std::string& path = options_.config->config_path;
  auto text = ReadConfigFile(path);
  if (!text.ok()) {
    findings.unreadable = text.status();
    if (read_fault_ != text.status()) BRAID_LOG_ERROR(log_, "{}", text.status().message());
    read_fault_ = text.status();
    return false;
  }
  read_fault_ = OkStatus();
  const bool same_text = text_ == *text && (!options_.watch || TextsBeside() == texts_beside_);
  if (same_text && (text_fault_.ok() || !retry)) return false;
  text_ = *text;
  auto plan = ReadConfigPlan(path, *text, log_);
  text_fault_ = plan.status();
  if (!plan.ok()) {
    BRAID_LOG_ERROR(log_, "{}: the file is not applied: {}", path, plan.status().message());
    findings.config = plan.status();
    return false;
  }
  plan_ = std::move(plan).value();
  if (options_.watch) texts_beside_ = TextsBeside();
  NameFolders();
  findings.changed = true;
  return true;
}

// Registers the configuration's folders, so that errors show paths relative to their parent folders.
void Manager::Impl::NameFolders() {
  const auto name = [this](const std::string& folder) {
    if (IsUrl(folder)) return;
    const std::filesystem::path path(folder);
    catalog_.error_texts().AddRoot((path.has_filename() ? path : path.parent_path()).parent_path().string());
  };
  for (const auto& model : plan_.models) name(model.base_path);
  for (const auto& library : plan_.libraries) name(library.base_path);
  for (const auto& graph : plan_.graphs) name(graph.base_path);
}

void Manager::Impl::PlanConfig(bool fresh, bool retry, Steps& steps) {
  if (fresh) {
    std::set<std::pair<std::string, ServableKind>> wanted;
    for (const auto& model : plan_.models) wanted.emplace(model.name, ServableKind::kModel);
    for (const auto& pipeline : plan_.pipelines) wanted.emplace(pipeline.name, ServableKind::kPipeline);
    for (const auto& graph : plan_.graphs) wanted.emplace(graph.name, ServableKind::kGraph);
    table_.Want(wanted);
  }
  models_.Plan(plan_.models, retry, steps);
  if (fresh || retry) pipelines_.Plan(plan_.pipelines, plan_.libraries, retry, steps);
}

void Manager::Impl::FinishConfig(bool fresh, bool retry, Findings& findings) {
  ConfigOutcome outcome = models_.TakeOutcome();
  outcome.Add(pipelines_.TakeOutcome());
  // After the pipelines, because a new definition may no longer need these models.
  models_.RetireUnwanted();
  if (fresh || retry || options_.watch || options_.config->watch_graph_files) {
    // A graph looks up its models when it runs, so load those first.
    const ConfigOutcome graphs = graphs_.Sync(plan_.graphs, fresh || retry);
    if (graphs.changed) Run({});
    outcome.Add(graphs);
  }
  findings.changed = findings.changed || outcome.changed;
  (fresh ? findings.config : findings.versions) = outcome.fault;
}

Manager::Impl::Findings Manager::Impl::Round(bool retry) {
  MutexLock round(round_mutex_);
  Findings findings;
  const bool fresh = !options_.config->config_path.empty() && ReadFile(retry, findings);
  Steps steps;
  PlanConfig(fresh, retry, steps);
  Run(steps);
  FinishConfig(fresh, retry, findings);
  if (on_demand_ != nullptr && findings.changed) LoadUsedByConfig();
  drains_.Reap();
  return findings;
}

Result<bool> Manager::Impl::Reload() {
  const RepositoryLife::Work work(life_);
  if (!work.begun()) return UnavailableError("Server exiting");
  if (!life_.serving() || !options_.config) return UnavailableError("Server is not ready");
  const Findings findings = Round(true);
  if (!findings.unreadable.ok()) return findings.unreadable.WithMessage(kUnreadable);
  if (!findings.config.ok()) return findings.config.WithMessage(kConfigFailed);
  if (!findings.versions.ok()) return findings.versions.WithMessage(kVersionsFailed);
  const int64_t deadline_ns = SteadyNowNs() + options_.config->retire_wait_ns;
  // In short steps, so that a shutdown is noticed.
  for (int64_t now_ns = SteadyNowNs(); now_ns < deadline_ns && !life_.exiting(); now_ns = SteadyNowNs()) {
    if (table_.AwaitDrains(std::min(now_ns + kSecondNs / 10, deadline_ns))) break;
  }
  return findings.changed;
}

void Manager::Impl::PollConfig() {
  const int64_t poll_ns = options_.config->poll_seconds > 0 ? options_.config->poll_seconds * kSecondNs
                                                            : std::numeric_limits<int64_t>::max() / 2;
  int64_t next_ns = SteadyNowNs() + poll_ns;
  while (life_.Sleep(next_ns)) {
    const RepositoryLife::Work work(life_);
    if (!work.begun()) return;
    if (SteadyNowNs() < next_ns) {
      // A model was unloaded.
      GuardedOrReport("brd-config", [this] { Run({}); });
      continue;
    }
    GuardedOrReport("brd-config", [this] { Round(false); });
    next_ns = SteadyNowNs() + poll_ns;
  }
}

// ---- saved files ----

// Returns the request to load a model folder whose fingerprint is `now`; nullopt if the model can stay as it is.
std::optional<LoadRequest> Manager::Impl::LoadWanted(const std::string& name,
                                                     std::optional<uint64_t> now) const {
  if (watch_ == nullptr) return table_.NeedsLoad(name, now) ? std::optional(FromDisk(name)) : std::nullopt;
  const auto before = watched_.prints.find(name);
  if (before != watched_.prints.end() && before->second == now) return std::nullopt;
  return options_.folders->control_mode == ControlMode::kExplicit ? table_.ReloadOf(name) : FromDisk(name);
}

// A model that writes into its own folder while it loads would be reloaded for ever.
void Manager::Impl::NoteWrites(const std::vector<LoadRequest>& loaded) {
  constexpr int kMostInARow = 3;
  for (const LoadRequest& request : loaded) {
    const std::string& name = request.model_name;
    const auto now = PrintOf(name);
    if (watched_.prints[name] == now) {
      watched_.writes.erase(name);
    } else if (++watched_.writes[name] >= kMostInARow) {
      BRAID_LOG_WARNING(
          log_,
          "the files of model '{}' have changed during each of its last {} loads, probably by the "
          "model itself; the changes of the last load do not reload it. Let it write elsewhere, or to "
          "names that begin with a dot",
          name, watched_.writes[name]);
      watched_.prints[name] = now;
    }
  }
}

// Watches the files of all sources. Errors: RESOURCE_EXHAUSTED, with the system's limit.
Status Manager::Impl::WatchSources() {
  FolderWatch::Wanted wanted;
  std::vector<std::string> unseen;
  if (options_.folders) wanted.trees = options_.folders->model_repositories;
  if (options_.config) {
    const std::string& path = options_.config->config_path;
    if (!path.empty()) wanted.files.push_back(path);
    for (const OvmsModelConfig& model : plan_.models) {
      if (IsUrl(model.base_path)) {
        unseen.push_back(
            fmt::format("--watch does not see changes of model '{}' in object storage", model.name));
        continue;
      }
      wanted.trees.push_back(model.base_path);
      std::error_code fault;
      const std::filesystem::path file(model.base_path);
      if (!std::filesystem::is_regular_file(file, fault)) continue;
      for (const std::string& name : FilesOfVersionFile(file))
        wanted.files.push_back((file.parent_path() / name).string());
    }
    for (const OvmsGraphConfig& graph : plan_.graphs) {
      wanted.files.push_back(graph.graph_path);
      if (const std::string beside = SubconfigOf(graph, path); !beside.empty())
        wanted.files.push_back(beside);
    }
    graphs_.AddFiles(wanted);
  }
  Status watched = watch_->Watch(wanted, unseen);
  for (const std::vector<std::string>& paths : {wanted.trees, wanted.files}) {
    for (const std::string& path : paths) {
      if (!FolderWatch::IsRemote(path)) continue;
      unseen.push_back(fmt::format(
          "'{}' is on a network file system, where --watch sees only this machine's changes", path));
    }
  }
  for (std::string& text : unseen) {
    if (watched_.told.insert(text).second) BRAID_LOG_WARNING(log_, "{}", text);
  }
  return watched.ok() ? watched : watched.WithPrefix(kWatchPrefix);
}

void Manager::Impl::FollowChanges() {
  FolderWatch::Changes changes;
  // The first pass finds what changed while the models loaded.
  while (!life_.exiting()) {
    bool done = true;
    GuardedOrReport("brd-poll", [&] { done = ApplyChanges(changes); });
    changes = watch_->Await(done ? FolderWatch::kNever : SteadyNowNs() + kSecondNs / 10);
  }
}

// Returns false if another pass has to follow soon.
bool Manager::Impl::ApplyChanges(const FolderWatch::Changes& changes) {
  const RepositoryLife::Work work(life_);
  if (!work.begun()) return true;
  LogChanges(changes);
  bool done = true;
  {
    // Before the files are read, so that each later change begins a pass.
    MutexLock round(round_mutex_);
    const Status watched = WatchSources();
    if (!watched.ok() && watched_.told.insert(watched.message()).second)
      BRAID_LOG_ERROR(log_, "{}: some changes will not be noticed", watched.message());
  }
  // A new config.json can name other folders.
  if (options_.config) done = !Round(false).changed;
  if (folders_serve_) done = ScanFolders() && done;
  return done;
}

void Manager::Impl::LogChanges(const FolderWatch::Changes& changes) const {
  constexpr size_t kMostNamed = 3;
  // Files that are gone already are the temporary ones of editors, unless there are no others.
  std::error_code fault;
  std::vector<std::string> files;
  for (const std::string& file : changes.files) {
    if (std::filesystem::exists(file, fault)) files.push_back(file);
  }
  if (files.empty()) files.assign(changes.files.begin(), changes.files.end());
  if (files.empty()) return;
  const size_t others = files.size() - std::min(files.size(), kMostNamed);
  files.resize(files.size() - others);
  const std::string names = fmt::format("{}", fmt::join(files, ", "));
  BRAID_LOG_INFO(log_, "changed: {}{}", names, others == 0 ? "" : fmt::format(" and {} more", others));
}

// Returns the texts of the files that the config.json points to.
std::string Manager::Impl::TextsBeside() {
  std::string texts;
  for (const OvmsGraphConfig& graph : plan_.graphs) {
    const std::string path = SubconfigOf(graph, options_.config->config_path);
    const auto text = path.empty() ? Result<std::string>(std::string()) : ReadConfigFile(path);
    texts += path + "\n" + (text.ok() ? *text : text.status().message()) + "\n";
  }
  return texts;
}

// ---- the public face ----

Manager::Manager(ManagerOptions options, Catalog& catalog, FolderMakers folder_makers,
                 ConfigMakers config_makers, Logger& log)
    : impl_(std::make_unique<Impl>(std::move(options), catalog, std::move(folder_makers),
                                   std::move(config_makers), log)) {}
Manager::~Manager() = default;

Status Manager::Start(Status& loaded) { return impl_->Start(loaded); }
Status Manager::Shutdown(int64_t deadline_ns) { return impl_->Shutdown(deadline_ns); }
std::optional<OvmsMetricsConfig> Manager::metrics() const { return impl_->metrics(); }
void Manager::ScanFolders() { (void)impl_->ScanFolders(); }
Status Manager::Load(const LoadRequest& request) { return impl_->Load(request); }
Status Manager::Unload(const std::string& model_name, bool unload_dependents, const ModelRights& rights) {
  return impl_->Unload(model_name, unload_dependents, rights);
}
bool Manager::serving() const { return impl_->serving(); }
bool Manager::server_ready() const { return impl_->server_ready(); }
void Manager::CheckServerReady(std::function<void(bool)> done) { impl_->CheckServerReady(std::move(done)); }
Result<bool> Manager::Reload() { return impl_->Reload(); }

}  // namespace braid
