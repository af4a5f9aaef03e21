#include "repository/model_table.h"

#include <algorithm>

#include "repository/model_folders.h"

namespace braid {

std::string LoadFailed(const std::string& model) { return "load failed for model '" + model + "': "; }

// ---- what is on disk ----

void ModelTable::NoteFolders(const std::set<std::string>& names) {
  std::lock_guard lock(mutex_);
  for (const std::string& name : names) NoteFolderLocked(name, models_[name], true);
  std::vector<std::string> gone;
  for (auto& [name, model] : models_) {
    if (names.contains(name)) continue;
    model.on_disk = false;
    gone.push_back(name);
  }
  for (const std::string& name : gone) ForgetIfGoneLocked(name);
}

void ModelTable::NoteFolder(const std::string& name, bool on_disk) {
  std::lock_guard lock(mutex_);
  NoteFolderLocked(name, models_.at(name), on_disk);
}

void ModelTable::NoteFolderLocked(const std::string& name, Model& model, bool on_disk) {
  model.on_disk = on_disk;
  // A name that is another repository's is found out when the model is loaded.
  if (on_disk) static_cast<void>(TakeNameLocked(name, model));
}

bool ModelTable::NeedsLoad(const std::string& name, std::optional<uint64_t> fingerprint) const {
  std::lock_guard lock(mutex_);
  const auto model = models_.find(name);
  if (model == models_.end() || model->second.served.empty()) return true;
  return fingerprint && fingerprint != model->second.tried;
}

std::vector<std::string> ModelTable::GoneFrom(const std::set<std::string>& names) const {
  std::vector<std::string> gone;
  std::lock_guard lock(mutex_);
  for (const auto& [name, model] : models_) {
    if (!names.contains(name) && !model.from_files) gone.push_back(name);
  }
  return gone;
}

Status ModelTable::CheckOursLocked(const std::string& name, const Model& model) const {
  if (model.ours || !catalog_.Knows(name, -1)) return OkStatus();
  return AlreadyExistsError("Given model name is already occupied - " + name);
}

Status ModelTable::TakeNameLocked(const std::string& name, Model& model) {
  BRAID_RETURN_IF_ERROR(CheckOursLocked(name, model));
  if (!std::exchange(model.ours, true)) catalog_.AddModel(name);
  return OkStatus();
}

void ModelTable::ForgetIfGoneLocked(const std::string& name) {
  const auto it = models_.find(name);
  if (it == models_.end()) return;
  const Model& model = it->second;
  if (model.on_disk || model.claimed || !model.served.empty() || !model.draining.empty()) return;
  if (model.ours) catalog_.RemoveModel(name);
  links_.Forget(name);
  models_.erase(it);
}

// ---- claims ----

Status ModelTable::CheckUnclaimedLocked(const std::set<std::string>& names) const {
  for (const std::string& name : names) {
    const auto model = models_.find(name);
    if (model == models_.end() || !model->second.claimed) continue;
    return UnavailableError("a related model '" + name +
                            "' to a load/unload request is currently loading or unloading");
  }
  return OkStatus();
}

Status ModelTable::CheckUnclaimed(const std::set<std::string>& names) const {
  std::lock_guard lock(mutex_);
  return CheckUnclaimedLocked(names);
}

Status ModelTable::Claim(const std::set<std::string>& names) {
  std::lock_guard lock(mutex_);
  BRAID_RETURN_IF_ERROR(CheckUnclaimedLocked(names));
  for (const std::string& name : names) models_[name].claimed = true;
  return OkStatus();
}

void ModelTable::Release(const std::string& name, const Status& fault) {
  std::lock_guard lock(mutex_);
  Model& model = models_.at(name);
  model.claimed = false;
  model.fault = fault;
  ForgetIfGoneLocked(name);
}

// ---- the steps of a load ----

Status ModelTable::CheckOurs(const std::string& name) const {
  std::lock_guard lock(mutex_);
  return CheckOursLocked(name, models_.at(name));
}

void ModelTable::NoteUnreadable(const std::string& name) {
  std::lock_guard lock(mutex_);
  models_.at(name).unreadable = true;
}

bool ModelTable::NotePlan(const LoadRequest& request, LoadPlan& plan) {
  const std::string& name = request.model_name;
  std::lock_guard lock(mutex_);
  Model& model = models_.at(name);
  model.unreadable = false;
  model.tried = plan.fingerprint;
  if (!plan.uses.empty()) {
    plan.SetUsesKey(
        EnsembleLinks::KeyOf(plan.uses, [this](const std::string& used) { return BuildOfLocked(used); }));
  }
  const bool same_config = !request.config_json || request.config_json == model.config_json;
  const bool from_disk = request.files.empty() && !model.from_files;
  if (from_disk && same_config && !model.served.empty() && model.loaded == plan.fingerprint &&
      links_.IsMadeOf(name, plan.uses_key)) {
    return true;
  }
  // Until it serves.
  if (!plan.uses.empty() && request.files.empty()) {
    links_.Wait(request, plan.uses, plan.uses_key);
  } else {
    links_.StopWaiting(name);
  }
  return false;
}

Result<std::vector<int64_t>> ModelTable::BeginBuilds(const std::string& name,
                                                     const std::map<int64_t, uint64_t>& keys) {
  std::vector<int64_t> builds;
  std::lock_guard lock(mutex_);
  Model& model = models_.at(name);
  BRAID_RETURN_IF_ERROR(TakeNameLocked(name, model));
  for (const auto& [version, key] : keys) {
    const auto served = model.served.find(version);
    if (served != model.served.end() && served->second.key == key) continue;
    builds.push_back(version);
    if (served != model.served.end()) continue;
    model.loading.insert(version);
    model.draining.erase(version);
    catalog_.SetState(name, version, VersionState::kLoading, "");
  }
  return builds;
}

void ModelTable::NoteProgress(const std::string& name, int64_t version, const std::string& text) {
  catalog_.SetReason(name, version, VersionState::kLoading, text);
}

bool ModelTable::Serve(const LoadRequest& request, const LoadPlan& plan, Built built, Leaving& leaving) {
  const std::string& name = request.model_name;
  std::lock_guard lock(mutex_);
  if (closed_) return false;
  Model& model = models_.at(name);
  model.loading.clear();
  for (auto& [version, servable] : built) {
    if (auto before = catalog_.Publish(servable)) leaving.emplace_back(std::move(before), 0);
    model.served[version] = {std::move(servable), plan.keys.at(version)};
  }
  for (auto it = model.served.begin(); it != model.served.end();) {
    if (plan.keys.contains(it->first)) {
      ++it;
      continue;
    }
    const uint64_t ticket = RetireLocked(name, model, it->first);
    leaving.emplace_back(std::move(it->second.servable), ticket);
    it = model.served.erase(it);
  }
  model.loaded = plan.fingerprint;
  model.config_json = request.config_json;
  model.from_files = plan.source.temporary_files != nullptr;
  links_.Made(name, plan.uses, plan.uses_key);
  return true;
}

void ModelTable::AbandonBuilds(const std::string& name, const std::map<int64_t, std::string>& reasons) {
  std::lock_guard lock(mutex_);
  for (const int64_t version : std::exchange(models_.at(name).loading, {})) {
    const auto reason = reasons.find(version);
    catalog_.SetState(name, version, VersionState::kUnavailable,
                      reason == reasons.end() ? "unloaded" : reason->second);
  }
}

// ---- unloading ----

uint64_t ModelTable::RetireLocked(const std::string& name, Model& model, int64_t version) {
  const uint64_t ticket = ++last_ticket_;
  model.draining[version] = ticket;
  catalog_.SetState(name, version, VersionState::kUnloading, "");
  return ticket;
}

Status ModelTable::Retire(const std::string& name, Leaving& leaving) {
  std::lock_guard lock(mutex_);
  const auto it = models_.find(name);
  if (it == models_.end()) return OkStatus();
  if (!closed_) BRAID_RETURN_IF_ERROR(CheckUnclaimedLocked({name}));
  Model& model = it->second;
  for (auto& [version, served] : model.served) {
    const uint64_t ticket = RetireLocked(name, model, version);
    leaving.emplace_back(std::move(served.servable), ticket);
  }
  model.served.clear();
  model.loaded.reset();
  model.config_json.reset();
  model.from_files = false;
  links_.StopWaiting(name);
  ForgetIfGoneLocked(name);
  return OkStatus();
}

void ModelTable::Drain(Leaving leaving) {
  for (auto& [servable, ticket] : leaving) {
    const ServableInfo& info = servable->info();
    drains_.Start(servable, [this, name = info.name, version = info.version, drain = ticket] {
      EndDrain(name, version, drain);
    });
  }
}

void ModelTable::EndDrain(const std::string& name, int64_t version, uint64_t ticket) {
  BRAID_LOG_INFO(log_, "successfully unloaded '{}' version {}", name, version);
  std::lock_guard lock(mutex_);
  const auto it = models_.find(name);
  if (it == models_.end()) return;
  auto& all = it->second.draining;
  const auto draining = all.find(version);
  // Since then the version may have been loaded again.
  if (ticket == 0 || draining == all.end() || draining->second != ticket) return;
  all.erase(draining);
  catalog_.SetState(name, version, VersionState::kUnavailable, "unloaded");
  ForgetIfGoneLocked(name);
}

void ModelTable::Close() {
  std::lock_guard lock(mutex_);
  closed_ = true;
}

std::vector<std::string> ModelTable::Names() const {
  std::vector<std::string> names;
  std::lock_guard lock(mutex_);
  for (const auto& [name, model] : models_) names.push_back(name);
  return names;
}

bool ModelTable::Serves(const std::string& name) const {
  std::lock_guard lock(mutex_);
  const auto model = models_.find(name);
  return model != models_.end() && !model->second.served.empty();
}

std::vector<std::string> ModelTable::Unfinished() const {
  std::vector<std::string> names;
  std::lock_guard lock(mutex_);
  for (const auto& [name, model] : models_) {
    if (model.claimed || !model.draining.empty()) names.push_back(name);
  }
  return names;
}

// ---- ensembles ----

bool ModelTable::IsForeignLocked(const std::string& name) const {
  const auto model = models_.find(name);
  return (model == models_.end() || !model->second.ours) && catalog_.Knows(name, -1);
}

std::optional<uint64_t> ModelTable::BuildOfLocked(const std::string& name) {
  uint64_t build = 0;
  if (IsForeignLocked(name)) {
    const auto served = catalog_.Versions(name, -1);
    if (!served.ok()) return std::nullopt;
    for (const auto& servable : *served) build = Mix(build, foreign_.NumberOf(servable));
    return build;
  }
  const auto model = models_.find(name);
  if (model == models_.end() || model->second.served.empty()) return std::nullopt;
  for (const auto& [version, served] : model->second.served) {
    build = Mix(Mix(build, static_cast<uint64_t>(version)), served.key);
  }
  return build;
}

std::optional<std::set<std::string>> ModelTable::KeptUses(const std::string& name) const {
  std::lock_guard lock(mutex_);
  if (IsForeignLocked(name)) return std::set<std::string>();
  const auto model = models_.find(name);
  if (model == models_.end() || !model->second.from_files || model->second.served.empty()) return {};
  return links_.UsesOf(name);
}

Dependencies ModelTable::uses() const {
  std::lock_guard lock(mutex_);
  return links_.uses();
}

void ModelTable::WaitForModels(const LoadRequest& request, const std::set<std::string>& uses) {
  std::lock_guard lock(mutex_);
  links_.Wait(request, uses, std::nullopt);
}

bool ModelTable::WaitsUntried(const std::string& name) const {
  std::lock_guard lock(mutex_);
  return links_.IsUntried(name);
}

std::string ModelTable::WhyMissing(const std::string& name) const {
  std::lock_guard lock(mutex_);
  const auto model = models_.find(name);
  if (model == models_.end() || model->second.fault.ok()) return "which has no loaded version.";
  std::string text = model->second.fault.message();
  if (const std::string same = LoadFailed(name); text.starts_with(same)) text.erase(0, same.size());
  if (text.ends_with('\n')) text.pop_back();
  return (model->second.unreadable ? "which is not valid." : "which has no loaded version.") +
         (" Model '" + name + "' loading failed with error: " + text);
}

// Directly, or through an ensemble. What lacks models of this repository alone comes with a request, or with
// a look at the folders.
bool ModelTable::AwaitsForeignLocked(const std::string& name) const {
  const std::set<std::string>* awaited = links_.AwaitedBy(name);
  if (awaited == nullptr) return false;
  Dependencies uses = links_.uses();
  uses[name] = *awaited;
  const std::set<std::string> used = UsedBy(uses, name);
  return std::any_of(used.begin(), used.end(),
                     [this](const std::string& model) { return IsForeignLocked(model); });
}

std::optional<LoadRequest> ModelTable::TakeStaleLocked(const std::string& name, const Model& model) {
  const auto build_of = [this](const std::string& used) { return BuildOfLocked(used); };
  if (model.served.empty()) {
    return AwaitsForeignLocked(name) ? links_.TakeDue(name, build_of) : std::nullopt;
  }
  if (model.from_files || !links_.IsStale(name, build_of)) return std::nullopt;
  links_.NoteTried(name, build_of);
  return LoadRequest{.model_name = name, .config_json = model.config_json, .files = {}};
}

std::vector<LoadRequest> ModelTable::ClaimStale() {
  std::vector<LoadRequest> stale;
  std::lock_guard lock(mutex_);
  for (auto& [name, model] : models_) {
    if (model.claimed) continue;
    if (auto request = TakeStaleLocked(name, model)) {
      model.claimed = true;
      stale.push_back(std::move(*request));
    }
  }
  return stale;
}

}  // namespace braid
