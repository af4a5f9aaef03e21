#include "repository/model_repository.h"

#include <algorithm>
#include <optional>
#include <set>
#include <utility>

#include "base/clock.h"
#include "base/guard.h"
#include "config/model_name.h"
#include "repository/dependencies.h"
#include "repository/drains.h"
#include "repository/model_folders.h"
#include "repository/model_loads.h"
#include "repository/model_table.h"
#include "repository/repository_life.h"
#include "serving/readiness_round.h"

namespace braid {
namespace {

constexpr int64_t kSecondNs = 1000000000;
constexpr const char* kNotAllLoaded = "failed to load all models";

LoadRequest FromDisk(const std::string& model) {
  return {.model_name = model, .config_json = {}, .files = {}};
}

Status CheckOptions(const RepositoryOptions& options) {
  const auto& startup = options.startup_models;
  if (options.model_repositories.empty())
    return InvalidArgumentError("at least one model repository must be given");
  if (startup.size() > 1 && std::find(startup.begin(), startup.end(), "*") != startup.end()) {
    return InvalidArgumentError(
        "Wildcard model name '*' must be the ONLY startup model if specified at all.");
  }
  if (!startup.empty() && options.control_mode != ControlMode::kExplicit) {
    return InvalidArgumentError(
        "models to load at start can be named in the explicit model control mode alone");
  }
  for (const std::string& name : startup) {
    if (name != "*") BRAID_RETURN_IF_ERROR(CheckModelName(name));
  }
  if (options.control_mode == ControlMode::kPoll && options.poll_seconds <= 0) {
    return InvalidArgumentError("the model repository must be polled at intervals of at least a second");
  }
  return OkStatus();
}

}  // namespace

// When something is to be loaded or unloaded. What is known of the models is the table's, and guarded by it;
// how they are loaded is the loads'.
class ModelRepository::Impl {
 public:
  Impl(RepositoryOptions options, Catalog& catalog, std::vector<Backend*> backends, ServableFactory factory,
       EnsembleFactory ensembles, Logger& log)
      : options_(std::move(options)),
        catalog_(catalog),
        log_(log),
        folders_(options_.model_repositories),
        drains_(options_.exit_timeout_seconds, options_.sequence_vault),
        table_(catalog, drains_, log),
        loads_(options_, folders_, table_, drains_, std::move(backends), std::move(factory),
               std::move(ensembles), catalog.error_texts(), log) {}

  Status Start();
  Status FinishStart();
  void Refresh();
  Status Shutdown(int64_t deadline_ns);
  void ScanOnce();
  Status Load(const LoadRequest& request);
  Status Unload(const std::string& name, bool unload_dependents);

  bool serving() const { return life_.serving(); }
  bool server_ready() const { return serving() && (!options_.strict_readiness || catalog_.AllReady()); }
  void CheckServerReady(std::function<void(bool)> done) const;

 private:
  std::vector<LoadRequest> StartupSet(const std::set<std::string>& names) const;
  Status CheckTakesLoads() const;
  Status UnloadModel(const std::string& name);
  Status BeginPolling();
  void PollLoop();
  Result<std::set<std::string>> FolderNames();

  const RepositoryOptions options_;
  Catalog& catalog_;
  Logger& log_;
  const ModelFolders folders_;
  Drains drains_;
  ModelTable table_;
  ModelLoads loads_;
  std::vector<std::string> waiting_;  // from Start() to FinishStart(), which are one thread's
  std::set<std::string> nameless_;    // folders that were skipped; the start's, then the polling thread's
  RepositoryLife life_;
};

// ---- starting and stopping ----

Status ModelRepository::Impl::Start() {
  const RepositoryLife::Work work(life_);
  if (!work.begun()) return UnavailableError("Server exiting");
  BRAID_RETURN_IF_ERROR(CheckOptions(options_));
  BRAID_ASSIGN_OR_RETURN(const auto names, FolderNames());
  loads_.RemoveAbandoned();
  table_.NoteFolders(names);

  const auto loaded = options_.others_follow ? loads_.LoadButWaiting(StartupSet(names), names, waiting_)
                                             : loads_.Load(StartupSet(names));
  const bool all_loaded = loaded.ok() && std::all_of(loaded->begin(), loaded->end(),
                                                     [](const auto& model) { return model.second.ok(); });
  BRAID_RETURN_IF_ERROR(life_.Serve());
  if (!options_.others_follow) BRAID_RETURN_IF_ERROR(BeginPolling());
  return all_loaded ? OkStatus() : InternalError(kNotAllLoaded);
}

Status ModelRepository::Impl::FinishStart() {
  const RepositoryLife::Work work(life_);
  if (!work.begun()) return UnavailableError("Server exiting");
  if (!life_.serving()) return UnavailableError("Server not ready");
  loads_.RefreshEnsembles();
  std::vector<LoadRequest> untried;
  for (const std::string& name : waiting_) {
    if (table_.WaitsUntried(name)) untried.push_back(FromDisk(name));
  }
  (void)loads_.Load(untried);  // says what is missing, in the log
  const bool all_loaded = std::all_of(waiting_.begin(), waiting_.end(),
                                      [this](const std::string& name) { return table_.Serves(name); });
  waiting_.clear();
  BRAID_RETURN_IF_ERROR(BeginPolling());
  return all_loaded ? OkStatus() : InternalError(kNotAllLoaded);
}

void ModelRepository::Impl::Refresh() {
  const RepositoryLife::Work work(life_);
  if (!work.begun()) return;
  loads_.RefreshEnsembles();
  drains_.Reap();
}

std::vector<LoadRequest> ModelRepository::Impl::StartupSet(const std::set<std::string>& names) const {
  const std::vector<std::string>& startup = options_.startup_models;
  std::set<std::string> wanted(startup.begin(), startup.end());
  if (options_.control_mode != ControlMode::kExplicit || wanted.contains("*")) wanted = names;
  std::vector<LoadRequest> requests;
  for (const std::string& name : wanted) requests.push_back(FromDisk(name));
  return requests;
}

Status ModelRepository::Impl::Shutdown(int64_t deadline_ns) {
  life_.Exit();
  table_.Close();
  loads_.BeginShutdown();
  drains_.BeginShutdown(catalog_, deadline_ns);
  for (const std::string& name : table_.Names()) (void)UnloadModel(name);

  const int64_t end_ns = deadline_ns + Drains::kStopGraceNs;
  if (!life_.End(end_ns) || !drains_.WaitUntilEmpty(end_ns)) {
    std::string held_up;
    for (const std::string& name : table_.Unfinished()) {
      held_up += (held_up.empty() ? "'" : ", '") + name + "'";
    }
    return UnavailableError("user code does not return, in " +
                            (held_up.empty() ? std::string("a replaced model") : held_up));
  }
  drains_.Reap();
  return OkStatus();
}

void ModelRepository::Impl::CheckServerReady(std::function<void(bool)> done) const {
  const auto all = catalog_.All();
  if (!server_ready() || !options_.strict_readiness || all.empty()) {
    done(server_ready());
    return;
  }
  auto round = std::make_shared<ReadinessRound>(
      all.size(), [done = std::move(done)](const Readiness& readiness) { done(readiness.ready); });
  for (const auto& servable : all) servable->CheckReadiness(ReadinessRound::Answer(round));
}

// ---- polling ----

// Says once of each folder that it cannot be a model's.
Result<std::set<std::string>> ModelRepository::Impl::FolderNames() {
  std::set<std::string> nameless;
  BRAID_ASSIGN_OR_RETURN(const auto counts, folders_.Names(nameless));
  for (const std::string& name : nameless) {
    if (nameless_.contains(name)) continue;
    BRAID_LOG_WARNING(log_, "skipping a folder of the model repository: {}", CheckModelName(name).message());
  }
  nameless_ = std::move(nameless);
  std::set<std::string> names;
  for (const auto& [name, count] : counts) names.insert(name);
  return names;
}

Status ModelRepository::Impl::BeginPolling() {
  if (options_.control_mode != ControlMode::kPoll) return OkStatus();
  return life_.StartPolling("brd-poll", [this] { PollLoop(); });
}

void ModelRepository::Impl::PollLoop() {
  while (life_.Sleep(SteadyNowNs() + options_.poll_seconds * kSecondNs)) {
    GuardedOrReport("brd-poll", [this] { ScanOnce(); });
  }
}

void ModelRepository::Impl::ScanOnce() {
  const RepositoryLife::Work work(life_);
  if (!work.begun()) return;
  const auto names = FolderNames();
  if (!names.ok()) {
    // A repository that cannot be read for a while is no reason to unload what it has brought.
    BRAID_LOG_ERROR(log_, "failed to poll the model repository: {}", names.status().message());
    return;
  }
  std::vector<LoadRequest> to_load;
  for (const std::string& name : *names) {
    // A model in two repositories has no fingerprint; what it served before stays.
    std::optional<uint64_t> now;
    if (auto folder = folders_.Open(name); folder.ok()) now = FingerprintOf(*folder).whole;
    if (table_.NeedsLoad(name, now)) to_load.push_back(FromDisk(name));
  }
  const std::vector<std::string> gone = table_.GoneFrom(*names);
  table_.NoteFolders(*names);
  for (const std::string& name : gone) (void)UnloadModel(name);  // one that loads is seen next time
  (void)loads_.Load(to_load);                                    // logged, and retried next time
}

// ---- loading and unloading ----

// Both are refused outside of explicit mode, and until the startup set is loaded.
Status ModelRepository::Impl::CheckTakesLoads() const {
  if (options_.control_mode != ControlMode::kExplicit) {
    return UnavailableError("explicit model load / unload is not allowed if polling is enabled");
  }
  if (life_.exiting()) return UnavailableError("Server exiting");
  return life_.serving() ? OkStatus() : UnavailableError("Server not ready");
}

Status ModelRepository::Impl::Load(const LoadRequest& request) {
  const RepositoryLife::Work work(life_);
  BRAID_RETURN_IF_ERROR(CheckTakesLoads());
  const std::string& name = request.model_name;
  BRAID_RETURN_IF_ERROR(CheckModelName(name));
  if (!request.files.empty() && !options_.allow_file_overrides) {
    return UnsupportedError("load parameter 'file:" + request.files.begin()->first +
                            "' is not allowed, the server was started with --allow-file-overrides=false");
  }
  // A folder that is there has a state in the index, which says the same.
  if (!folders_.Open(name).ok()) BRAID_RETURN_IF_ERROR(CheckLoadableName(name));
  BRAID_ASSIGN_OR_RETURN(const auto loaded, loads_.Load({request}));
  return loaded.at(name);
}

Status ModelRepository::Impl::Unload(const std::string& name, bool unload_dependents) {
  const RepositoryLife::Work work(life_);
  BRAID_RETURN_IF_ERROR(CheckTakesLoads());
  BRAID_RETURN_IF_ERROR(CheckModelName(name));
  std::set<std::string> used;
  if (unload_dependents) {
    used = UsedBy(table_.uses(), name);
    std::set<std::string> all = used;
    all.insert(name);
    BRAID_RETURN_IF_ERROR(table_.CheckUnclaimed(all));
  }
  // A request inside the ensemble keeps its models to its end; a new one finds the ensemble gone.
  Status status = UnloadModel(name);
  for (const std::string& model : used) {
    if (status.ok()) status = UnloadModel(model);
  }
  drains_.Reap();
  return status;
}

Status ModelRepository::Impl::UnloadModel(const std::string& name) {
  ModelTable::Leaving leaving;
  BRAID_RETURN_IF_ERROR(table_.Retire(name, leaving));
  table_.Drain(std::move(leaving));
  return OkStatus();
}

// ---- the public face ----

ModelRepository::ModelRepository(RepositoryOptions options, Catalog& catalog, std::vector<Backend*> backends,
                                 ServableFactory factory, EnsembleFactory ensembles, Logger& log)
    : impl_(std::make_unique<Impl>(std::move(options), catalog, std::move(backends), std::move(factory),
                                   std::move(ensembles), log)) {}
ModelRepository::~ModelRepository() = default;

Status ModelRepository::Start() { return impl_->Start(); }
Status ModelRepository::FinishStart() { return impl_->FinishStart(); }
void ModelRepository::Refresh() { impl_->Refresh(); }
Status ModelRepository::Shutdown(int64_t deadline_ns) { return impl_->Shutdown(deadline_ns); }
void ModelRepository::ScanOnce() { impl_->ScanOnce(); }
Status ModelRepository::Load(const LoadRequest& request) { return impl_->Load(request); }
Status ModelRepository::Unload(const std::string& model_name, bool unload_dependents) {
  return impl_->Unload(model_name, unload_dependents);
}
bool ModelRepository::serving() const { return impl_->serving(); }
bool ModelRepository::server_ready() const { return impl_->server_ready(); }
void ModelRepository::CheckServerReady(std::function<void(bool)> done) {
  impl_->CheckServerReady(std::move(done));
}

}  // namespace braid
