#include "repository/model_repository.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <system_error>
#include <thread>
#include <utility>

#include "base/clock.h"
#include "base/temporary_folder.h"
#include "base/thread.h"
#include "config/config_json.h"
#include "config/folder.h"
#include "config/guess_backend.h"
#include "config/model_config.h"
#include "repository/dependencies.h"
#include "repository/drains.h"
#include "repository/model_folders.h"
#include "repository/parallel.h"
#include "repository/version_loader.h"
#include "repository/version_policy.h"
#include "serving/readiness_round.h"

namespace braid {
namespace {

constexpr size_t kMaxConfigBytes = size_t{16} << 20;
constexpr size_t kMaxVersionFiles = 100000;
constexpr int64_t kSecondNs = 1000000000;
// Of the folders with the files of load requests.
constexpr std::string_view kFilesPrefix = "braid-files-";

// Every fault in reading a model from disk or from a request is answered by this; the reason is in the log.
Status PollFailed(const std::string& model) {
  return InternalError("failed to load '" + model + "', failed to poll from model repository");
}

// How the text of a failed load begins.
std::string LoadFailed(const std::string& model) { return "load failed for model '" + model + "': "; }

Status Busy(const std::string& model) {
  return UnavailableError("a related model '" + model +
                          "' to a load/unload request is currently loading or unloading");
}

bool HasPathTraversal(std::string_view name) {
  return name.find('/') != std::string_view::npos || name.find('\\') != std::string_view::npos ||
         name.find("..") != std::string_view::npos || name == ".";
}

}  // namespace

class ModelRepository::Impl {
 public:
  Impl(RepositoryOptions options, Catalog& catalog, std::vector<Backend*> backends, ServableFactory factory,
       EnsembleFactory ensembles, Logger& log)
      : options_(std::move(options)),
        catalog_(catalog),
        log_(log),
        folders_(options_.model_repositories),
        drains_(options_.exit_timeout_seconds, options_.sequence_vault),
        loader_(options_, std::move(backends), std::move(factory), log,
                [this, ensembles = std::move(ensembles)](ServableInfo info) {
                  return ensembles(std::move(info),
                                   [this](const std::string& model) { return WhyMissing(model); });
                }) {}

  ~Impl() { BRAID_CHECK(!poller_.joinable()); }

  Status Start();
  Status Shutdown(int64_t deadline_ns);
  void ScanOnce();
  Status Load(const LoadRequest& request);
  Status Unload(const std::string& name, bool unload_dependents);

  bool serving() const {
    std::lock_guard lock(mutex_);
    return phase_ == Phase::kServing;
  }
  bool server_ready() const { return serving() && (!options_.strict_readiness || catalog_.AllReady()); }
  void CheckServerReady(std::function<void(bool)> done) const;

 private:
  enum class Phase : unsigned char { kNew, kStarting, kServing, kExiting };

  struct Served {
    std::shared_ptr<Servable> servable;  // shared with the catalog and with the requests inside
    // What it was made from; equal keys need no reload.
    uint64_t key = 0;
  };

  struct Model {
    bool busy = false;  // a load runs
    bool on_disk = false;
    // Another repository of the same catalog has brought the name before.
    bool foreign = false;
    std::map<int64_t, Served> served;
    // Unloaded versions whose requests have not all left, with the drain that will report them as unloaded.
    std::map<int64_t, uint64_t> draining;
    // Of the folder when it was last tried, and when it was last loaded with success.
    std::optional<uint64_t> tried;
    std::optional<uint64_t> loaded;
    // What the last successful load was asked for.
    std::optional<std::string> config_json;
    bool from_files = false;
    // Of an ensemble: what it uses, and of what state of that it was made, or last tried to be.
    std::set<std::string> uses;
    uint64_t uses_key = 0;
    uint64_t tried_uses_key = 0;
    // Why the last load failed; whether it could not even be read.
    Status fault;
    bool unreadable = false;
  };

  // What a load is going to do.
  struct Plan {
    ModelSource source;
    uint64_t fingerprint = 0;
    std::map<int64_t, uint64_t> keys;  // the versions to serve
    std::set<std::string> uses;
    uint64_t uses_key = 0;
  };

  // Counts work that Shutdown() has to wait for. Given out while the repository takes work.
  class Activity {
   public:
    explicit Activity(Impl& impl) : impl_(impl) {}
    ~Activity() {
      std::lock_guard lock(impl_.mutex_);
      --impl_.activities_;
      impl_.changed_.notify_all();
    }
    Activity(const Activity&) = delete;
    Activity& operator=(const Activity&) = delete;

   private:
    Impl& impl_;
  };
  std::unique_ptr<Activity> BeginActivity();

  Status CheckOptions() const;
  // Loads models together with those they use, in order. Status by name, of those that were asked for and of
  // those they use. Errors: UNAVAILABLE, when one of them is being loaded already.
  Result<std::map<std::string, Status>> LoadTogether(const std::vector<LoadRequest>& wanted);
  Status Claim(const std::map<std::string, LoadRequest>& requests);
  void LoadAndRelease(const LoadRequest& request, const Dependencies& uses, Status& status);
  std::set<std::string> LookForUses(const LoadRequest& request) const;
  std::optional<std::set<std::string>> WhatItKeeps(const std::string& name) const;
  void RefreshEnsembles();
  uint64_t UsesKeyLocked(const std::set<std::string>& uses) const;
  Dependencies UsesLocked() const;
  std::string WhyMissing(const std::string& model) const;
  Status LoadClaimed(const LoadRequest& request, const Dependencies& uses);
  Result<Plan> MakePlan(const LoadRequest& request);
  Result<ModelSource> OpenSource(const LoadRequest& request);
  Result<std::optional<inference::ModelConfig>> ReadConfig(const LoadRequest& request,
                                                           const Folder& folder) const;
  Status FillBackend(inference::ModelConfig& config, const Folder& folder,
                     const std::vector<int64_t>& versions) const;
  Status Apply(const LoadRequest& request, Plan& plan, const Dependencies& uses);
  Result<std::shared_ptr<Servable>> BuildVersion(const ModelSource& source, int64_t version,
                                                 const Dependencies& uses);

  Status UnloadModel(const std::string& name);
  void StartDrain(std::shared_ptr<Servable> servable, uint64_t ticket);
  void EndDrain(const std::string& name, int64_t version, uint64_t ticket);
  Model& KnowLocked(const std::string& name);
  void ForgetIfGoneLocked(const std::string& name);
  void UpdateKnown(const std::map<std::string, int>& names);
  void PollLoop();
  // Whether `condition` came to hold before the deadline; waits on changed_.
  template <class Condition>
  bool WaitLocked(std::unique_lock<std::mutex>& lock, int64_t deadline_ns, Condition condition);

  const RepositoryOptions options_;
  Catalog& catalog_;
  Logger& log_;
  const ModelFolders folders_;
  Drains drains_;
  const VersionLoader loader_;

  mutable std::mutex mutex_;
  std::condition_variable changed_;  // of anything below
  // All guarded by mutex_; states in the catalog are written with it held, so that both agree.
  Phase phase_ = Phase::kNew;
  int activities_ = 0;
  std::map<std::string, Model> models_;
  uint64_t last_ticket_ = 0;
  std::thread poller_;
};

// ---- starting and stopping ----

std::unique_ptr<ModelRepository::Impl::Activity> ModelRepository::Impl::BeginActivity() {
  std::lock_guard lock(mutex_);
  if (phase_ == Phase::kExiting) return nullptr;
  ++activities_;
  return std::make_unique<Activity>(*this);
}

Status ModelRepository::Impl::CheckOptions() const {
  const auto& startup = options_.startup_models;
  if (options_.model_repositories.empty())
    return InvalidArgumentError("at least one model repository must be given");
  if (startup.size() > 1 && std::find(startup.begin(), startup.end(), "*") != startup.end()) {
    return InvalidArgumentError(
        "Wildcard model name '*' must be the ONLY startup model if specified at all.");
  }
  if (!startup.empty() && options_.control_mode != ControlMode::kExplicit) {
    return InvalidArgumentError(
        "models to load at start can be named in the explicit model control mode alone");
  }
  if (options_.control_mode == ControlMode::kPoll && options_.poll_seconds <= 0) {
    return InvalidArgumentError("the model repository must be polled at intervals of at least a second");
  }
  return OkStatus();
}

Status ModelRepository::Impl::Start() {
  auto activity = BeginActivity();
  if (!activity) return UnavailableError("Server exiting");
  BRAID_RETURN_IF_ERROR(CheckOptions());
  BRAID_ASSIGN_OR_RETURN(const auto names, folders_.Names());
  TemporaryFolder::RemoveAbandoned(options_.temporary_directory, kFilesPrefix);
  {
    std::lock_guard lock(mutex_);
    BRAID_CHECK(phase_ == Phase::kNew || phase_ == Phase::kExiting);
    if (phase_ == Phase::kNew) phase_ = Phase::kStarting;
  }
  UpdateKnown(names);

  std::set<std::string> wanted;
  if (options_.control_mode != ControlMode::kExplicit ||
      options_.startup_models == std::vector<std::string>{"*"}) {
    for (const auto& [name, count] : names) wanted.insert(name);
  } else {
    wanted.insert(options_.startup_models.begin(), options_.startup_models.end());
  }
  std::vector<LoadRequest> requests;
  for (const std::string& name : wanted) {
    requests.push_back({.model_name = name, .config_json = {}, .files = {}});
  }
  const auto loaded = LoadTogether(requests);
  const bool all_loaded = loaded.ok() && std::all_of(loaded->begin(), loaded->end(),
                                                     [](const auto& model) { return model.second.ok(); });

  std::lock_guard lock(mutex_);
  if (phase_ == Phase::kExiting) return UnavailableError("Server exiting");
  phase_ = Phase::kServing;
  if (options_.control_mode == ControlMode::kPoll) {
    try {
      poller_ = StartThread("brd-poll", [this] { PollLoop(); });
    } catch (const std::system_error& fault) {
      return InternalError(std::string("failed to start the thread that polls: ") + fault.what());
    }
  }
  return all_loaded ? OkStatus() : InternalError("failed to load all models");
}

template <class Condition>
bool ModelRepository::Impl::WaitLocked(std::unique_lock<std::mutex>& lock, int64_t deadline_ns,
                                       Condition condition) {
  while (!condition()) {
    const int64_t left = deadline_ns - SteadyNowNs();
    if (left <= 0) return false;
    changed_.wait_for(lock, std::chrono::nanoseconds(std::min(left, kSecondNs)));
  }
  return true;
}

Status ModelRepository::Impl::Shutdown(int64_t deadline_ns) {
  {
    std::lock_guard lock(mutex_);
    phase_ = Phase::kExiting;
    changed_.notify_all();
  }
  loader_.BeginShutdown();
  drains_.BeginShutdown(catalog_, deadline_ns);

  std::vector<std::string> names;
  {
    std::lock_guard lock(mutex_);
    for (const auto& [name, model] : models_) names.push_back(name);
  }
  for (const std::string& name : names) (void)UnloadModel(name);

  const int64_t end_ns = deadline_ns + Drains::kStopGraceNs;
  std::unique_lock lock(mutex_);
  bool idle = WaitLocked(lock, end_ns, [this] { return activities_ == 0; });
  lock.unlock();
  idle = idle && drains_.WaitUntilEmpty(end_ns);
  lock.lock();
  if (!idle) {
    std::string held_up;
    for (const auto& [name, model] : models_) {
      if (model.busy || !model.draining.empty()) held_up += (held_up.empty() ? "'" : ", '") + name + "'";
    }
    return UnavailableError("user code does not return, in " +
                            (held_up.empty() ? std::string("a replaced model") : held_up));
  }
  std::thread poller = std::move(poller_);
  lock.unlock();
  if (poller.joinable()) poller.join();
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

// ---- what is on disk ----

void ModelRepository::Impl::UpdateKnown(const std::map<std::string, int>& names) {
  std::vector<std::string> gone;
  {
    std::lock_guard lock(mutex_);
    for (const auto& [name, count] : names) {
      if (!std::exchange(KnowLocked(name).on_disk, true)) catalog_.AddModel(name);
    }
    for (auto& [name, model] : models_) {
      if (!names.contains(name)) {
        model.on_disk = false;
        gone.push_back(name);
      }
    }
    for (const std::string& name : gone) ForgetIfGoneLocked(name);
  }
}

ModelRepository::Impl::Model& ModelRepository::Impl::KnowLocked(const std::string& name) {
  const auto [model, added] = models_.try_emplace(name);
  if (added) model->second.foreign = catalog_.Knows(name, -1);
  return model->second;
}

// A model that is neither on disk nor in memory leaves no trace, so that names from requests cannot fill the
// memory.
void ModelRepository::Impl::ForgetIfGoneLocked(const std::string& name) {
  auto it = models_.find(name);
  if (it == models_.end()) return;
  const Model& model = it->second;
  if (model.on_disk || model.busy || !model.served.empty() || !model.draining.empty()) return;
  if (!model.foreign) catalog_.RemoveModel(name);
  models_.erase(it);
}

void ModelRepository::Impl::PollLoop() {
  for (;;) {
    {
      std::unique_lock lock(mutex_);
      const int64_t next_ns = SteadyNowNs() + options_.poll_seconds * kSecondNs;
      if (WaitLocked(lock, next_ns, [this] { return phase_ == Phase::kExiting; })) return;
    }
    ScanOnce();
  }
}

void ModelRepository::Impl::ScanOnce() {
  auto activity = BeginActivity();
  if (!activity) return;
  const auto names = folders_.Names();
  if (!names.ok()) {
    // A repository that cannot be read for a while is no reason to unload what it has brought.
    BRAID_LOG_ERROR(log_, "failed to poll the model repository: {}", names.status().message());
    return;
  }

  std::vector<LoadRequest> to_load;
  for (const auto& [name, count] : *names) {
    std::optional<uint64_t> now;
    if (auto folder = folders_.Open(name); folder.ok()) now = FingerprintOf(*folder).whole;
    std::lock_guard lock(mutex_);
    auto it = models_.find(name);
    const bool known = it != models_.end();
    // A model in two repositories has no fingerprint; what it served before stays.
    if (!known || it->second.served.empty() || (now && now != it->second.tried)) {
      to_load.push_back({.model_name = name, .config_json = {}, .files = {}});
    }
  }
  std::vector<std::string> gone;
  {
    std::lock_guard lock(mutex_);
    for (const auto& [name, model] : models_) {
      if (!names->contains(name) && !model.from_files) gone.push_back(name);
    }
  }
  UpdateKnown(*names);
  for (const std::string& name : gone) (void)UnloadModel(name);  // one that loads is seen next time
  (void)LoadTogether(to_load);                                   // logged, and retried next time
}

// ---- loading ----

Status ModelRepository::Impl::Load(const LoadRequest& request) {
  if (options_.control_mode != ControlMode::kExplicit) {
    return UnavailableError("explicit model load / unload is not allowed if polling is enabled");
  }
  {
    std::lock_guard lock(mutex_);
    if (phase_ == Phase::kExiting) return UnavailableError("Server exiting");
    if (phase_ != Phase::kServing) return UnavailableError("Server not ready");
  }
  const std::string& name = request.model_name;
  if (name.empty())
    return InvalidArgumentError("Model name cannot be empty. Please enter a valid name to deploy.");
  if (HasPathTraversal(name)) {
    return InvalidArgumentError("invalid model name '" + name +
                                "', model name must not contain path traversal characters");
  }
  BRAID_ASSIGN_OR_RETURN(auto loaded, LoadTogether({request}));
  return loaded.at(name);
}

Result<std::map<std::string, Status>> ModelRepository::Impl::LoadTogether(
    const std::vector<LoadRequest>& wanted) {
  auto activity = BeginActivity();
  if (!activity) return UnavailableError("Server exiting");
  Dependencies uses;
  std::map<std::string, LoadRequest> requests;
  std::vector<LoadRequest> todo = wanted;
  while (!todo.empty()) {
    LoadRequest request = std::move(todo.back());
    todo.pop_back();
    const std::string name = request.model_name;
    if (uses.contains(name)) continue;
    const auto kept = WhatItKeeps(name);
    const bool asked_for = std::any_of(wanted.begin(), wanted.end(),
                                       [&name](const auto& one) { return one.model_name == name; });
    uses[name] = kept && !asked_for ? *kept : LookForUses(request);
    for (const std::string& used : uses[name]) {
      todo.insert(todo.begin(), {.model_name = used, .config_json = {}, .files = {}});
    }
    if (!kept || asked_for) requests.emplace(name, std::move(request));
  }
  BRAID_RETURN_IF_ERROR(Claim(requests));
  std::map<std::string, Status> loaded;
  for (const auto& [name, request] : requests) loaded[name];
  for (const auto& group : LoadOrder(uses)) {
    ParallelFor(group.size(), options_.load_thread_count, [&](size_t i) {
      const auto request = requests.find(group[i]);
      if (request != requests.end()) LoadAndRelease(request->second, uses, loaded.at(group[i]));
    });
  }
  RefreshEnsembles();
  drains_.Reap();
  return loaded;
}

// All or none of them, so that two loads that share models do not hold each other up half way.
Status ModelRepository::Impl::Claim(const std::map<std::string, LoadRequest>& requests) {
  std::lock_guard lock(mutex_);
  for (const auto& [name, request] : requests) {
    auto model = models_.find(name);
    if (model != models_.end() && model->second.busy) return Busy(name);
  }
  for (const auto& [name, request] : requests) KnowLocked(name).busy = true;
  return OkStatus();
}

void ModelRepository::Impl::LoadAndRelease(const LoadRequest& request, const Dependencies& uses,
                                           Status& status) {
  const std::string& name = request.model_name;
  status = LoadClaimed(request, uses);
  std::lock_guard lock(mutex_);
  Model& model = models_[name];
  model.busy = false;
  model.fault = status;
  ForgetIfGoneLocked(name);
}

// What a model would use if it were loaded now. One that cannot be read uses nothing; its load says why.
std::set<std::string> ModelRepository::Impl::LookForUses(const LoadRequest& request) const {
  if (request.config_json) {
    const auto config = ConfigFromJson(*request.config_json);
    return config.ok() ? ModelsUsedBy(*config) : std::set<std::string>();
  }
  const auto folder = folders_.Open(request.model_name);
  if (!folder.ok()) return {};
  const auto config = ReadConfig(request, *folder);
  return config.ok() && *config ? ModelsUsedBy(**config) : std::set<std::string>();
}

// What a model uses that came with a load request and is served: an ensemble takes it as it is. Nothing for
// others.
std::optional<std::set<std::string>> ModelRepository::Impl::WhatItKeeps(const std::string& name) const {
  std::lock_guard lock(mutex_);
  auto model = models_.find(name);
  if (model == models_.end() || !model->second.from_files || model->second.served.empty()) return {};
  return model->second.uses;
}

// Which builds of its models an ensemble is made of.
uint64_t ModelRepository::Impl::UsesKeyLocked(const std::set<std::string>& uses) const {
  uint64_t key = 0;
  for (const std::string& name : uses) {
    key = Mix(key, name);
    auto model = models_.find(name);
    if (model == models_.end()) continue;
    for (const auto& [version, served] : model->second.served) {
      key = Mix(Mix(key, static_cast<uint64_t>(version)), served.key);
    }
  }
  return key;
}

Dependencies ModelRepository::Impl::UsesLocked() const {
  Dependencies uses;
  for (const auto& [name, model] : models_) uses[name] = model.uses;
  return uses;
}

// Makes the ensembles anew whose models have been replaced, and then those that use these.
void ModelRepository::Impl::RefreshEnsembles() {
  for (;;) {
    std::vector<LoadRequest> stale;
    Dependencies uses;
    {
      std::lock_guard lock(mutex_);
      auto served = [this](const std::string& name) {
        auto model = models_.find(name);
        return model != models_.end() && !model->second.served.empty();
      };
      for (auto& [name, model] : models_) {
        if (model.uses.empty() || model.served.empty() || model.busy || model.from_files) continue;
        const uint64_t key = UsesKeyLocked(model.uses);
        if (key == model.uses_key || key == model.tried_uses_key) continue;
        if (!std::all_of(model.uses.begin(), model.uses.end(), served)) continue;
        model.busy = true;
        model.tried_uses_key = key;
        stale.push_back({.model_name = name, .config_json = model.config_json, .files = {}});
      }
      uses = UsesLocked();
    }
    if (stale.empty()) return;
    for (const LoadRequest& request : stale) {
      Status status;
      LoadAndRelease(request, uses, status);
      if (!status.ok()) {
        BRAID_LOG_WARNING(log_, "ensemble '{}' stays as it was made of the models before: {}",
                          request.model_name, status.message());
      }
    }
  }
}

std::string ModelRepository::Impl::WhyMissing(const std::string& name) const {
  std::lock_guard lock(mutex_);
  auto model = models_.find(name);
  if (model == models_.end() || model->second.fault.ok()) return "which has no loaded version.";
  std::string text = model->second.fault.message();
  if (const std::string same = LoadFailed(name); text.starts_with(same)) text.erase(0, same.size());
  if (text.ends_with('\n')) text.pop_back();
  return (model->second.unreadable ? "which is not valid." : "which has no loaded version.") +
         (" Model '" + name + "' loading failed with error: " + text);
}

Status ModelRepository::Impl::LoadClaimed(const LoadRequest& request, const Dependencies& uses) {
  const std::string& name = request.model_name;
  bool foreign = false;
  {
    std::lock_guard lock(mutex_);
    foreign = models_.at(name).foreign;
  }
  if (foreign) {
    BRAID_LOG_ERROR(log_, "failed to load '{}': Given model name is already occupied", name);
    return AlreadyExistsError("Given model name is already occupied - " + name);
  }
  auto plan = MakePlan(request);
  {
    std::lock_guard lock(mutex_);
    models_[name].unreadable = !plan.ok();
  }
  if (!plan.ok()) {
    BRAID_LOG_ERROR(log_, "Poll failed for model directory '{}': {}", name, plan.status().message());
    return PollFailed(name);
  }
  {
    std::lock_guard lock(mutex_);
    Model& model = models_[name];
    model.tried = plan->fingerprint;
    const bool same_config = !request.config_json || request.config_json == model.config_json;
    const bool from_disk = request.files.empty() && !model.from_files;
    if (from_disk && same_config && !model.served.empty() && model.loaded == plan->fingerprint &&
        model.uses_key == plan->uses_key) {
      return OkStatus();
    }
  }
  if (plan->keys.empty()) {
    const std::string text =
        "at least one version must be available under the version policy of model '" + name + "'";
    BRAID_LOG_ERROR(log_, "failed to load model '{}': {}", name, text);
    return InvalidArgumentError(LoadFailed(name) + text + "\n");
  }
  return Apply(request, *plan, uses);
}

Result<ModelSource> ModelRepository::Impl::OpenSource(const LoadRequest& request) {
  const std::string& name = request.model_name;
  if (request.files.empty()) {
    auto folder = folders_.Open(name);
    {
      std::lock_guard lock(mutex_);
      const bool on_disk = folder.status().code() != StatusCode::kNotFound;
      if (!std::exchange(models_[name].on_disk, on_disk) && on_disk) catalog_.AddModel(name);
    }
    if (!folder.ok()) return folder.status();
    return ModelSource{std::move(folder).value(), nullptr, {}};
  }
  if (!request.config_json) {
    return InvalidArgumentError("Load parameter 'config' must be specified for model file override");
  }
  for (const auto& [path, content] : request.files) {
    std::string_view relative = path;
    if (relative.starts_with('/')) relative.remove_prefix(1);
    if (!IsPlainRelativePath(relative)) {
      return InvalidArgumentError("Invalid file parameter 'file:" + path +
                                  "' must stay within model directory.");
    }
  }
  BRAID_ASSIGN_OR_RETURN(std::shared_ptr<TemporaryFolder> temporary,
                         TemporaryFolder::Create(options_.temporary_directory, kFilesPrefix));
  BRAID_ASSIGN_OR_RETURN(const Folder parent, Folder::Open(temporary->path()));
  for (const auto& [path, content] : request.files) {
    // The folder bears the model's name, as a folder in a repository does.
    const std::string relative = name + (path.starts_with('/') ? "" : "/") + path;
    if (!IsPlainRelativePath(relative))
      return InvalidArgumentError("the model's name cannot be that of a folder");
    BRAID_RETURN_IF_ERROR(parent.CreateFile(relative, content));
  }
  BRAID_ASSIGN_OR_RETURN(Folder folder, parent.OpenFolder(name));
  return ModelSource{std::move(folder), std::move(temporary), {}};
}

// Nothing when the model has no configuration.
Result<std::optional<inference::ModelConfig>> ModelRepository::Impl::ReadConfig(const LoadRequest& request,
                                                                                const Folder& folder) const {
  if (request.config_json) {
    auto config = ConfigFromJson(*request.config_json);
    if (!config.ok()) return config.status().WithPrefix("Invalid config override: ");
    return std::optional(std::move(config).value());
  }
  std::vector<std::string> places;
  if (const std::string custom = "configs/" + options_.model_config_name + ".pbtxt";
      !options_.model_config_name.empty() && IsPlainRelativePath(custom)) {
    places.push_back(custom);
  }
  places.emplace_back("config.pbtxt");
  for (const std::string& place : places) {
    auto text = folder.ReadFile(place, kMaxConfigBytes);
    if (!text.ok()) {
      if (text.status().code() == StatusCode::kNotFound) continue;
      return text.status();
    }
    BRAID_ASSIGN_OR_RETURN(auto config, ParseConfigText(*text, folder.path() + "/" + place));
    return std::optional(std::move(config));
  }
  if (!options_.auto_complete) {
    return NotFoundError("failed to open text file for read " + folder.path() +
                         "/config.pbtxt: No such file or directory");
  }
  return std::optional<inference::ModelConfig>();
}

Status ModelRepository::Impl::FillBackend(inference::ModelConfig& config, const Folder& folder,
                                          const std::vector<int64_t>& versions) const {
  if (!config.backend().empty() || IsEnsemble(config)) return OkStatus();
  if (!config.platform().empty()) {
    config.set_backend(std::string(BackendOfPlatform(config.platform())));
    return OkStatus();
  }
  if (!options_.auto_complete) return OkStatus();  // the check of the configuration says what is missing
  std::vector<std::string> files;
  if (!versions.empty()) {
    BRAID_ASSIGN_OR_RETURN(const Folder version, folder.OpenFolder(std::to_string(versions.front())));
    BRAID_ASSIGN_OR_RETURN(const auto entries, version.List(kMaxVersionFiles));
    for (const auto& entry : entries) files.push_back(entry.name);
  }
  BRAID_ASSIGN_OR_RETURN(std::string backend, GuessBackend(config.name(), files));
  config.set_backend(std::move(backend));
  return OkStatus();
}

Result<ModelRepository::Impl::Plan> ModelRepository::Impl::MakePlan(const LoadRequest& request) {
  BRAID_ASSIGN_OR_RETURN(ModelSource source, OpenSource(request));
  // Before anything is read: what changes later is seen as a change.
  const Fingerprint print = FingerprintOf(source.folder);
  BRAID_ASSIGN_OR_RETURN(auto config, ReadConfig(request, source.folder));
  std::vector<std::string> ignored;
  BRAID_ASSIGN_OR_RETURN(const auto available, ListVersions(source.folder, &ignored));
  for (const std::string& folder : ignored) {
    BRAID_LOG_WARNING(
        log_,
        "ignore version directory '{}' of model '{}': versions are integers from 1, without leading zeros",
        folder, request.model_name);
  }
  if (config) source.config = std::move(*config);
  BRAID_RETURN_IF_ERROR(CompleteNames(source.config, request.model_name));
  BRAID_RETURN_IF_ERROR(FillBackend(source.config, source.folder, available));
  BRAID_RETURN_IF_ERROR(CheckConfigFile(source.config));

  for (int64_t version : source.config.version_policy().specific().versions()) {
    if (std::find(available.begin(), available.end(), version) == available.end()) {
      BRAID_LOG_ERROR(log_,
                      "version {} is specified for model '{}', but the version directory is not present",
                      version, request.model_name);
    }
  }
  // Which versions there are is no reason to reload one that stays.
  inference::ModelConfig without_policy = source.config;
  without_policy.clear_version_policy();
  uint64_t key = Mix(Mix(print.common, ConfigToJson(without_policy)), source.folder.path());
  if (source.temporary_files) {
    // Files of a request are never the same as any before.
    std::lock_guard lock(mutex_);
    key = Mix(key, ++last_ticket_);
  }
  Plan plan{std::move(source), print.whole, {}, ModelsUsedBy(without_policy), 0};
  if (!plan.uses.empty()) {
    std::lock_guard lock(mutex_);
    plan.uses_key = UsesKeyLocked(plan.uses);
    key = Mix(key, plan.uses_key);
  }
  for (int64_t version : ChooseVersions(plan.source.config.version_policy(), available)) {
    auto part = print.versions.find(version);
    plan.keys[version] = Mix(key, part == print.versions.end() ? 0 : part->second);
  }
  return plan;
}

Result<std::shared_ptr<Servable>> ModelRepository::Impl::BuildVersion(const ModelSource& source,
                                                                      int64_t version,
                                                                      const Dependencies& uses) {
  const std::string& name = source.config.name();
  if (const std::string cycle = FindCycle(uses, name); !cycle.empty()) {
    return InvalidArgumentError("circular dependency between ensembles: " + cycle);
  }
  auto progress = [this, &name, version](const std::string& text) {
    catalog_.SetReason(name, version, VersionState::kLoading, text);
  };
  for (int attempt = 0;; ++attempt) {
    BRAID_LOG_INFO(log_, "loading: {}:{}", name, version);
    auto built = loader_.Load(source, version, progress);
    if (built.ok() || attempt >= options_.load_retry_count) return built;
    const StatusCode code = built.status().code();
    if (code == StatusCode::kInvalidArgument || code == StatusCode::kUnsupported) return built;
    BRAID_LOG_WARNING(log_, "failed to load '{}' version {}, trying again: {}", name, version,
                      built.status().ToString());
  }
}

Status ModelRepository::Impl::Apply(const LoadRequest& request, Plan& plan, const Dependencies& uses) {
  const std::string& name = request.model_name;
  std::vector<int64_t> to_build;
  std::set<int64_t> fresh;  // not served by an older build meanwhile
  {
    std::lock_guard lock(mutex_);
    Model& model = models_[name];
    for (const auto& [version, key] : plan.keys) {
      auto served = model.served.find(version);
      if (served != model.served.end() && served->second.key == key) continue;
      to_build.push_back(version);
      if (served != model.served.end()) continue;
      fresh.insert(version);
      model.draining.erase(version);
      catalog_.SetState(name, version, VersionState::kLoading, "");
    }
  }

  std::vector<std::optional<Result<std::shared_ptr<Servable>>>> built(to_build.size());
  ParallelFor(to_build.size(), options_.load_thread_count,
              [&](size_t i) { built[i].emplace(BuildVersion(plan.source, to_build[i], uses)); });

  std::string faults;
  for (size_t i = 0; i < built.size(); ++i) {
    if (built[i]->ok()) continue;
    const std::string text = built[i]->status().ToString();
    faults += "version " + std::to_string(to_build[i]) + " is at UNAVAILABLE state: " + text + ";";
    BRAID_LOG_ERROR(log_, "failed to load '{}' version {}: {}", name, to_build[i], text);
  }

  if (options_.sequence_vault != nullptr && faults.empty()) {
    for (auto& result : built) options_.sequence_vault->Enter(**result);
  }

  std::vector<std::pair<std::shared_ptr<Servable>, uint64_t>>
      leaving;  // with the ticket of the drain, 0 for a replaced one
  bool exiting = false;
  {
    std::lock_guard lock(mutex_);
    exiting = phase_ == Phase::kExiting;
    Model& model = models_[name];
    if (exiting || !faults.empty()) {
      for (size_t i = 0; i < built.size(); ++i) {
        if (!fresh.contains(to_build[i])) continue;
        catalog_.SetState(name, to_build[i], VersionState::kUnavailable,
                          built[i]->ok() ? "unloaded" : built[i]->status().ToString());
      }
    } else {
      for (size_t i = 0; i < built.size(); ++i) {
        std::shared_ptr<Servable> servable = **built[i];
        if (auto before = catalog_.Publish(servable)) leaving.emplace_back(std::move(before), 0);
        model.served[to_build[i]] = {std::move(servable), plan.keys[to_build[i]]};
      }
      for (auto it = model.served.begin(); it != model.served.end();) {
        if (plan.keys.contains(it->first)) {
          ++it;
          continue;
        }
        const uint64_t ticket = ++last_ticket_;
        model.draining[it->first] = ticket;
        catalog_.SetState(name, it->first, VersionState::kUnloading, "");
        leaving.emplace_back(std::move(it->second.servable), ticket);
        it = model.served.erase(it);
      }
      model.loaded = plan.fingerprint;
      model.config_json = request.config_json;
      model.from_files = plan.source.temporary_files != nullptr;
      model.uses = std::move(plan.uses);
      model.uses_key = plan.uses_key;
    }
  }
  for (auto& [servable, ticket] : leaving) StartDrain(std::move(servable), ticket);

  if (exiting || !faults.empty()) {
    for (auto& result : built) {
      if (result->ok()) drains_.Discard(***result);
    }
    BRAID_LOG_INFO(log_, "failed to load '{}'", name);
    if (faults.empty()) return UnavailableError("Server exiting");
    return InvalidArgumentError(LoadFailed(name) + faults + "\n");
  }
  BRAID_LOG_INFO(log_, "successfully loaded '{}'", name);
  return OkStatus();
}

// ---- unloading ----

Status ModelRepository::Impl::Unload(const std::string& name, bool unload_dependents) {
  if (options_.control_mode != ControlMode::kExplicit) {
    return UnavailableError("explicit model load / unload is not allowed if polling is enabled");
  }
  auto activity = BeginActivity();
  if (!activity) return UnavailableError("Server exiting");
  std::set<std::string> names = {name};
  {
    std::lock_guard lock(mutex_);
    if (phase_ != Phase::kServing) return UnavailableError("Server not ready");
    if (unload_dependents) {
      names.merge(UsedBy(UsesLocked(), name));
      for (const std::string& one : names) {
        auto model = models_.find(one);
        if (model != models_.end() && model->second.busy) return Busy(one);
      }
    }
  }
  // A request inside the ensemble keeps its models to its end; a new one finds the ensemble gone.
  Status status = UnloadModel(name);
  names.erase(name);
  for (const std::string& used : names) {
    if (status.ok()) status = UnloadModel(used);
  }
  drains_.Reap();
  return status;
}

Status ModelRepository::Impl::UnloadModel(const std::string& name) {
  std::vector<std::pair<std::shared_ptr<Servable>, uint64_t>> leaving;
  {
    std::lock_guard lock(mutex_);
    auto it = models_.find(name);
    if (it == models_.end()) return OkStatus();
    Model& model = it->second;
    // A load that runs while the server exits sees that itself.
    if (model.busy && phase_ != Phase::kExiting) return Busy(name);
    for (auto& [version, served] : model.served) {
      const uint64_t ticket = ++last_ticket_;
      model.draining[version] = ticket;
      catalog_.SetState(name, version, VersionState::kUnloading, "");
      leaving.emplace_back(std::move(served.servable), ticket);
    }
    model.served.clear();
    model.loaded.reset();
    model.config_json.reset();
    model.from_files = false;
    ForgetIfGoneLocked(name);
  }
  for (auto& [servable, ticket] : leaving) StartDrain(std::move(servable), ticket);
  return OkStatus();
}

void ModelRepository::Impl::StartDrain(std::shared_ptr<Servable> servable, uint64_t ticket) {
  const ServableInfo& info = servable->info();
  drains_.Start(servable, [this, name = info.name, version = info.version, ticket] {
    EndDrain(name, version, ticket);
  });
}

void ModelRepository::Impl::EndDrain(const std::string& name, int64_t version, uint64_t ticket) {
  BRAID_LOG_INFO(log_, "successfully unloaded '{}' version {}", name, version);
  std::lock_guard lock(mutex_);
  auto it = models_.find(name);
  if (it == models_.end()) return;
  auto draining = it->second.draining.find(version);
  // Since then the version may have been loaded again.
  if (ticket == 0 || draining == it->second.draining.end() || draining->second != ticket) return;
  it->second.draining.erase(draining);
  catalog_.SetState(name, version, VersionState::kUnavailable, "unloaded");
  ForgetIfGoneLocked(name);
}

// ---- the public face ----

ModelRepository::ModelRepository(RepositoryOptions options, Catalog& catalog, std::vector<Backend*> backends,
                                 ServableFactory factory, EnsembleFactory ensembles, Logger& log)
    : impl_(std::make_unique<Impl>(std::move(options), catalog, std::move(backends), std::move(factory),
                                   std::move(ensembles), log)) {}
ModelRepository::~ModelRepository() = default;

Status ModelRepository::Start() { return impl_->Start(); }
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
