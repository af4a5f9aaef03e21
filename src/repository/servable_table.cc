#include "repository/servable_table.h"

#include <algorithm>
#include <chrono>
#include <iterator>

#include "base/clock.h"
#include "base/guard.h"
#include "repository/model_folders.h"
#include "serving/faults.h"

namespace braid {
namespace {

// The error for an entry of the config.json whose name is taken.
Status Occupied(const std::string& name, ServableKind kind) {
  switch (kind) {
    case ServableKind::kPipeline:
      return FaultError(Fault::kPipelineNameOccupied, name);
    case ServableKind::kGraph:
      return AlreadyExistsError("Given mediapipe graph name is already occupied - " + name);
    case ServableKind::kModel:
    case ServableKind::kEnsemble:
      break;
  }
  return AlreadyExistsError("Given model name is already occupied - " + name);
}

// The code that clients get for a failed load.
StatusCode FailureOf(const Status& fault) {
  return fault.code() == StatusCode::kFailedPrecondition ? fault.code() : StatusCode::kUnknown;
}

}  // namespace

std::string LoadFailed(const std::string& model) { return "load failed for model '" + model + "': "; }

// ---- names of the config.json ----

void ServableTable::Want(const std::set<std::pair<std::string, ServableKind>>& wanted) {
  MutexLock lock(mutex_);
  for (auto& [name, entry] : entries_) {
    if (entry.owner == Owner::kConfig) entry.wanted = wanted.contains({name, entry.kind});
  }
  for (const auto& [name, kind] : wanted) {
    Entry& entry = entries_[name];
    if (entry.owner != Owner::kNone) continue;
    entry.owner = Owner::kConfig;
    entry.kind = kind;
    entry.wanted = true;
    catalog_.AddModel(name);
    if (kind != ServableKind::kModel) SetState(name, entry, 1, VersionState::kLoading, "");
  }
}

Status ServableTable::CheckOwnLocked(const std::string& name, ServableKind kind) const {
  const auto entry = entries_.find(name);
  if (entry == entries_.end() || entry->second.owner == Owner::kNone) return OkStatus();
  const bool other = entry->second.wanted && entry->second.kind != kind;
  return entry->second.owner == Owner::kFolder || other ? Occupied(name, kind) : OkStatus();
}

Status ServableTable::CheckOwn(const std::string& name, ServableKind kind) const {
  MutexLock lock(mutex_);
  return CheckOwnLocked(name, kind);
}

Status ServableTable::Own(const std::string& name, ServableKind kind) {
  const RetryingAllocation retrying;
  RetiredServables leaving;
  {
    MutexLock lock(mutex_);
    BRAID_RETURN_IF_ERROR(CheckOwnLocked(name, kind));
    Entry& entry = entries_[name];
    if (entry.owner == Owner::kConfig && entry.kind != kind) {
      while (!entry.served.empty()) RetireVersion(name, entry, entry.served.begin()->first, leaving);
      entry.draining.clear();
      catalog_.RemoveModel(name);
      graph_.Forget(name);
    }
    entry.owner = Owner::kConfig;
    entry.kind = kind;
    entry.wanted = true;
    if (!catalog_.Knows(name, -1)) catalog_.AddModel(name);
  }
  Drain(std::move(leaving));
  return OkStatus();
}

ServableTable::Entry* ServableTable::FindOwn(const std::string& name, ServableKind kind) {
  const auto entry = entries_.find(name);
  const bool own = entry != entries_.end() && entry->second.owner == Owner::kConfig;
  return own && entry->second.kind == kind ? &entry->second : nullptr;
}

void ServableTable::SetLoading(const std::string& name, int64_t version, ServableKind kind) {
  RetryingLock lock(mutex_);
  Entry* entry = FindOwn(name, kind);
  if (closed_ || entry == nullptr) return;
  entry->draining.erase(version);
  SetState(name, *entry, version, VersionState::kLoading, "");
}

void ServableTable::SetFailed(const std::string& name, int64_t version, ServableKind kind,
                              const Status& fault, RetiredServables& leaving) {
  RetryingLock lock(mutex_);
  Entry* entry = FindOwn(name, kind);
  if (closed_ || entry == nullptr) return;
  entry->draining.erase(version);
  if (const auto served = entry->served.extract(version)) leaving.emplace_back(served.mapped().servable, 0);
  catalog_.SetState(name, version, VersionState::kUnavailable,
                    catalog_.error_texts().ForClients(fault.message()), FailureOf(fault), kind);
}

bool ServableTable::Serve(std::shared_ptr<Servable> servable, RetiredServables& leaving) {
  RetryingLock lock(mutex_);
  const ServableInfo& info = servable->info();
  Entry* entry = FindOwn(info.name, info.kind);
  if (closed_ || entry == nullptr) return false;
  entry->draining.erase(info.version);
  entry->served[info.version] = {servable, Mix(0, ++last_build_)};
  if (auto before = catalog_.Publish(std::move(servable))) leaving.emplace_back(std::move(before), 0);
  return true;
}

void ServableTable::Retire(const std::string& name, int64_t version, ServableKind kind,
                           RetiredServables& leaving) {
  RetryingLock lock(mutex_);
  Entry* entry = FindOwn(name, kind);
  if (closed_ || entry == nullptr) return;
  graph_.Forget(name);  // for a pipeline: the next definition is always tried
  RetireVersion(name, *entry, version, leaving);
}

// ---- what is on disk of the model folders ----

void ServableTable::NoteFolders(const std::set<std::string>& names) {
  RetryingLock lock(mutex_);
  for (const std::string& name : names) NoteFolderLocked(name, entries_[name], true);
  std::vector<std::string> gone;
  for (auto& [name, entry] : entries_) {
    if (names.contains(name)) continue;
    entry.on_disk = false;
    gone.push_back(name);
  }
  for (const std::string& name : gone) ForgetIfGone(name);
}

void ServableTable::NoteFolder(const std::string& name, bool on_disk) {
  RetryingLock lock(mutex_);
  NoteFolderLocked(name, entries_.at(name), on_disk);
}

void ServableTable::NoteFolderLocked(const std::string& name, Entry& entry, bool on_disk) {
  entry.on_disk = on_disk;
  // If the config.json owns the name, the load reports that.
  if (on_disk) static_cast<void>(TakeName(name, entry));
}

bool ServableTable::NeedsLoad(const std::string& name, std::optional<uint64_t> fingerprint) const {
  MutexLock lock(mutex_);
  const auto entry = entries_.find(name);
  if (entry == entries_.end() || entry->second.served.empty()) return true;
  return fingerprint && fingerprint != entry->second.tried;
}

std::optional<LoadRequest> ServableTable::ReloadOf(const std::string& name) const {
  MutexLock lock(mutex_);
  const auto found = entries_.find(name);
  if (found == entries_.end()) return std::nullopt;
  const Entry& entry = found->second;
  if (entry.served.empty()) return entry.asked;
  if (entry.from_files) return std::nullopt;
  return LoadRequest{.model_name = name, .config_json = entry.config_json, .files = {}};
}

std::vector<std::string> ServableTable::GoneFrom(const std::set<std::string>& names) const {
  std::vector<std::string> gone;
  MutexLock lock(mutex_);
  for (const auto& [name, entry] : entries_) {
    if (entry.owner == Owner::kFolder && !names.contains(name) && !entry.from_files) gone.push_back(name);
  }
  return gone;
}

Status ServableTable::CheckFreeLocked(const std::string& name) const {
  return IsOfConfigLocked(name) ? Occupied(name, ServableKind::kModel) : OkStatus();
}

Status ServableTable::TakeName(const std::string& name, Entry& entry) {
  BRAID_RETURN_IF_ERROR(CheckFreeLocked(name));
  if (std::exchange(entry.owner, Owner::kFolder) == Owner::kNone) {
    catalog_.AddModel(name);
    if (on_demand_) catalog_.SetOnDemand(name, true);
  }
  return OkStatus();
}

void ServableTable::ForgetIfGone(const std::string& name) {
  const auto it = entries_.find(name);
  if (it == entries_.end()) return;
  const Entry& entry = it->second;
  if (entry.owner == Owner::kConfig || entry.on_disk || entry.claimed || !entry.served.empty() ||
      !entry.draining.empty()) {
    return;
  }
  if (entry.owner == Owner::kFolder) catalog_.RemoveModel(name);
  graph_.Forget(name);
  entries_.erase(it);
}

// ---- claims ----

Status ServableTable::CheckUnclaimedLocked(const std::set<std::string>& names) const {
  for (const std::string& name : names) {
    const auto entry = entries_.find(name);
    if (entry == entries_.end() || !entry->second.claimed) continue;
    return UnavailableError("a related model '" + name +
                            "' to a load/unload request is currently loading or unloading");
  }
  return OkStatus();
}

Status ServableTable::CheckUnclaimed(const std::set<std::string>& names) const {
  MutexLock lock(mutex_);
  return CheckUnclaimedLocked(names);
}

Status ServableTable::Claim(const std::set<std::string>& names) {
  RetryingLock lock(mutex_);
  BRAID_RETURN_IF_ERROR(CheckUnclaimedLocked(names));
  for (const std::string& name : names) entries_[name].claimed = true;
  return OkStatus();
}

void ServableTable::Release(const std::string& name, const Status& fault) {
  RetryingLock lock(mutex_);
  Entry& entry = entries_.at(name);
  entry.claimed = false;
  entry.fault = fault;
  ForgetIfGone(name);
  ++releases_;
  changed_.NotifyAll();
}

uint64_t ServableTable::releases() const {
  MutexLock lock(mutex_);
  return releases_;
}

bool ServableTable::AwaitRelease(uint64_t releases, int64_t deadline_ns) const {
  MutexLock lock(mutex_);
  while (releases_ == releases) {
    const int64_t left_ns = deadline_ns - SteadyNowNs();
    if (left_ns <= 0) return false;
    changed_.WaitFor(mutex_, std::chrono::nanoseconds(left_ns));
  }
  return true;
}

// ---- the steps of a load from a model folder ----

Status ServableTable::CheckFree(const std::string& name) const {
  MutexLock lock(mutex_);
  return CheckFreeLocked(name);
}

void ServableTable::NoteRequest(const LoadRequest& request) {
  RetryingLock lock(mutex_);
  std::optional<LoadRequest>& asked = entries_.at(request.model_name).asked;
  asked.reset();
  if (request.files.empty()) asked = request;
}

void ServableTable::NoteUnreadable(const std::string& name, const std::string& reason) {
  RetryingLock lock(mutex_);
  entries_.at(name).unreadable = true;
  catalog_.SetReason(name, reason);
}

bool ServableTable::NotePlan(const LoadRequest& request, LoadPlan& plan) {
  const RetryingAllocation retrying;
  const std::string& name = request.model_name;
  MutexLock lock(mutex_);
  Entry& entry = entries_.at(name);
  entry.unreadable = false;
  catalog_.SetReason(name, "");
  entry.tried = plan.fingerprint;
  if (!plan.uses.empty()) plan.SetUsesKey(DependencyGraph::KeyOf(plan.uses, Builds()));
  const bool same_config = !request.config_json || request.config_json == entry.config_json;
  const bool from_disk = request.files.empty() && !entry.from_files;
  const bool serves = !entry.served.empty();
  if (from_disk && same_config && serves && entry.loaded == plan.fingerprint &&
      graph_.IsMadeOf(name, plan.uses_key)) {
    return true;
  }
  // A serving version is remade from its own request, even if this plan fails.
  if (serves) return false;
  entry.awaiting.reset();
  if (!plan.uses.empty() && request.files.empty()) {
    entry.awaiting = request;
    graph_.Want(name, plan.uses, plan.uses_key);
  }
  return false;
}

Result<std::vector<int64_t>> ServableTable::BeginBuilds(const std::string& name,
                                                        const std::map<int64_t, uint64_t>& keys) {
  const RetryingAllocation retrying;
  std::vector<int64_t> builds;
  MutexLock lock(mutex_);
  Entry& entry = entries_.at(name);
  BRAID_RETURN_IF_ERROR(TakeName(name, entry));
  for (const auto& [version, key] : keys) {
    const auto served = entry.served.find(version);
    if (served != entry.served.end() && served->second.build == key) continue;
    builds.push_back(version);
    if (served != entry.served.end()) continue;
    entry.loading.insert(version);
    entry.draining.erase(version);
    SetState(name, entry, version, VersionState::kLoading, "");
  }
  return builds;
}

void ServableTable::NoteProgress(const std::string& name, int64_t version, const std::string& text) {
  catalog_.SetReason(name, version, VersionState::kLoading, text);
}

bool ServableTable::Serve(const LoadRequest& request, const LoadPlan& plan, Built built,
                          RetiredServables& leaving) {
  const RetryingAllocation retrying;
  const std::string& name = request.model_name;
  MutexLock lock(mutex_);
  if (closed_) return false;
  Entry& entry = entries_.at(name);
  entry.loading.clear();
  for (auto& [version, servable] : built) {
    if (auto before = catalog_.Publish(servable)) leaving.emplace_back(std::move(before), 0);
    entry.served[version] = {std::move(servable), plan.keys.at(version)};
  }
  std::vector<int64_t> others;
  for (const auto& [version, served] : entry.served) {
    if (!plan.keys.contains(version)) others.push_back(version);
  }
  for (const int64_t version : others) RetireVersion(name, entry, version, leaving);
  entry.loaded = plan.fingerprint;
  entry.config_json = request.config_json;
  entry.from_files = plan.source.temporary_files != nullptr;
  entry.awaiting.reset();
  graph_.Made(name, plan.uses, plan.uses_key);
  return true;
}

void ServableTable::AbandonBuilds(const std::string& name, const std::map<int64_t, std::string>& reasons) {
  RetryingLock lock(mutex_);
  Entry& entry = entries_.at(name);
  for (const int64_t version : std::exchange(entry.loading, {})) {
    const auto reason = reasons.find(version);
    SetState(name, entry, version, VersionState::kUnavailable,
             reason == reasons.end() ? "unloaded" : reason->second);
  }
}

Status ServableTable::Unload(const std::string& name, RetiredServables& leaving) {
  RetryingLock lock(mutex_);
  const auto it = entries_.find(name);
  if (it == entries_.end() || it->second.owner == Owner::kConfig) return OkStatus();
  BRAID_RETURN_IF_ERROR(CheckUnclaimedLocked({name}));
  Entry& entry = it->second;
  while (!entry.served.empty()) RetireVersion(name, entry, entry.served.begin()->first, leaving);
  entry.loaded.reset();
  entry.asked.reset();
  entry.config_json.reset();
  entry.from_files = false;
  entry.awaiting.reset();
  ForgetIfGone(name);
  return OkStatus();
}

// ---- models on demand ----

std::vector<ServableTable::Resident> ServableTable::Residents() const {
  std::vector<Resident> residents;
  MutexLock lock(mutex_);
  for (const auto& [name, entry] : entries_) {
    if (entry.owner != Owner::kFolder || (entry.served.empty() && entry.draining.empty())) continue;
    Resident& resident = residents.emplace_back();
    resident.name = name;
    for (const auto& [version, served] : entry.served) resident.versions.push_back(served.servable);
    resident.kept = entry.kept;
    resident.draining = !entry.draining.empty();
  }
  return residents;
}

void ServableTable::Keep(const std::string& name) {
  MutexLock lock(mutex_);
  const auto entry = entries_.find(name);
  if (entry == entries_.end() || entry->second.owner != Owner::kFolder) return;
  entry->second.kept = true;
  if (on_demand_) catalog_.SetOnDemand(name, true);
}

void ServableTable::Forgo(const std::string& name) {
  MutexLock lock(mutex_);
  const auto entry = entries_.find(name);
  if (entry == entries_.end() || entry->second.owner != Owner::kFolder) return;
  entry->second.kept = false;
  catalog_.SetOnDemand(name, false);
}

// ---- the end of versions, and of the server ----

void ServableTable::SetState(const std::string& name, const Entry& entry, int64_t version, VersionState state,
                             const std::string& reason) {
  if (entry.owner == Owner::kConfig) {
    catalog_.SetState(name, version, state, reason, StatusCode::kOk, entry.kind);
  } else {
    catalog_.SetState(name, version, state, reason);
  }
}

void ServableTable::RetireVersion(const std::string& name, Entry& entry, int64_t version,
                                  RetiredServables& leaving) {
  const auto served = entry.served.extract(version);
  if (served.empty()) {
    entry.draining.erase(version);
    SetState(name, entry, version, VersionState::kUnavailable, "unloaded");
    return;
  }
  const uint64_t ticket = ++last_ticket_;
  entry.draining[version] = ticket;
  SetState(name, entry, version, VersionState::kUnloading, "");
  leaving.emplace_back(served.mapped().servable, ticket);
}

void ServableTable::Drain(RetiredServables leaving) {
  const RetryingAllocation retrying;
  for (auto& [servable, ticket] : leaving) {
    const ServableInfo& info = servable->info();
    drains_.Start(servable, [this, name = info.name, version = info.version, dialect = info.dialect,
                             ticket = ticket, begin_ns = SteadyNowNs()] {
      const LogAbout about(name);
      if (dialect == Dialect::kOvms) {
        BRAID_LOG_INFO(log_, "{} '{}' version {} after {} ms", ticket == 0 ? "replaced" : "retired", name,
                       version, (SteadyNowNs() - begin_ns) / 1000000);
      } else {
        BRAID_LOG_INFO(log_, "successfully unloaded '{}' version {}", name, version);
      }
      EndDrain(name, version, ticket);
    });
  }
}

void ServableTable::EndDrain(const std::string& name, int64_t version, uint64_t ticket) {
  RetryingLock lock(mutex_);
  const auto entry = entries_.find(name);
  if (ticket == 0 || entry == entries_.end()) return;
  auto& all = entry->second.draining;
  const auto draining = all.find(version);
  // The version may have been loaded again since, or the name may belong to another kind now.
  if (draining == all.end() || draining->second != ticket) return;
  all.erase(draining);
  SetState(name, entry->second, version, VersionState::kUnavailable, "unloaded");
  ForgetIfGone(name);
  changed_.NotifyAll();
}

bool ServableTable::DrainsLocked() const {
  for (const auto& [name, entry] : entries_) {
    if (!entry.draining.empty()) return true;
  }
  return false;
}

bool ServableTable::AwaitDrains(int64_t deadline_ns) const {
  MutexLock lock(mutex_);
  while (DrainsLocked()) {
    const int64_t left_ns = deadline_ns - SteadyNowNs();
    if (left_ns <= 0) return false;
    changed_.WaitFor(mutex_, std::chrono::nanoseconds(left_ns));
  }
  return true;
}

void ServableTable::Close() {
  MutexLock lock(mutex_);
  closed_ = true;
}

bool ServableTable::closed() const {
  MutexLock lock(mutex_);
  return closed_;
}

void ServableTable::RetireAll() {
  const RetryingAllocation retrying;
  RetiredServables pipelines;
  RetiredServables others;
  {
    MutexLock lock(mutex_);
    for (auto& [name, entry] : entries_) {
      const bool pipeline = entry.owner == Owner::kConfig && entry.kind == ServableKind::kPipeline;
      while (!entry.served.empty()) {
        RetireVersion(name, entry, entry.served.begin()->first, pipeline ? pipelines : others);
      }
    }
  }
  Drain(std::move(pipelines));
  Drain(std::move(others));
}

void ServableTable::NoteReload(const std::string& name, const std::string& reason) {
  RetryingLock lock(mutex_);
  const auto entry = entries_.find(name);
  if (entry == entries_.end()) return;
  for (const auto& [version, served] : entry->second.served) {
    catalog_.SetReason(name, version, VersionState::kReady, reason);
  }
}

bool ServableTable::Serves(const std::string& name) const {
  MutexLock lock(mutex_);
  const auto entry = entries_.find(name);
  return entry != entries_.end() && !entry->second.served.empty();
}

std::vector<std::string> ServableTable::Unfinished() const {
  std::vector<std::string> names;
  MutexLock lock(mutex_);
  for (const auto& [name, entry] : entries_) {
    if (entry.claimed || !entry.draining.empty()) names.push_back(name);
  }
  return names;
}

// ---- ensembles and pipelines ----

bool ServableTable::IsOfConfigLocked(const std::string& name) const {
  const auto entry = entries_.find(name);
  return entry != entries_.end() && entry->second.owner == Owner::kConfig;
}

// REQUIRES: mutex_ is held when the result is called. The thread-safety analysis cannot check that.
DependencyGraph::BuildOf ServableTable::Builds() const {
  return [this](const ServableUse& use) -> std::optional<uint64_t> {
    mutex_.AssertHeld();
    const auto entry = entries_.find(use.name);
    if (entry == entries_.end() || entry->second.served.empty()) return std::nullopt;
    const auto& served = entry->second.served;
    // Pipelines and graphs have one version, which answers requests for any version.
    const bool any = use.version <= 0 || entry->second.kind == ServableKind::kPipeline ||
                     entry->second.kind == ServableKind::kGraph;
    const auto found = any ? std::prev(served.end()) : served.find(use.version);
    if (found == served.end()) return std::nullopt;
    return Mix(static_cast<uint64_t>(found->first), found->second.build);
  };
}

std::optional<std::set<std::string>> ServableTable::KeptUses(const std::string& name) const {
  MutexLock lock(mutex_);
  const auto entry = entries_.find(name);
  if (entry == entries_.end()) return std::nullopt;
  if (entry->second.owner == Owner::kConfig) return std::set<std::string>();
  if (!entry->second.from_files || entry->second.served.empty()) return std::nullopt;
  const Dependencies all = graph_.All();
  const auto uses = all.find(name);
  return uses == all.end() ? std::set<std::string>() : uses->second;
}

Dependencies ServableTable::uses() const {
  MutexLock lock(mutex_);
  return graph_.All();
}

Dependencies ServableTable::made_uses() const {
  MutexLock lock(mutex_);
  return graph_.AllMade();
}

std::string ServableTable::WhyMissing(const std::string& name) const {
  MutexLock lock(mutex_);
  const auto entry = entries_.find(name);
  if (entry == entries_.end() || entry->second.fault.ok()) return "which has no loaded version.";
  std::string text = entry->second.fault.message();
  if (const std::string same = LoadFailed(name); text.starts_with(same)) text.erase(0, same.size());
  if (text.ends_with('\n')) text.pop_back();
  return (entry->second.unreadable ? "which is not valid." : "which has no loaded version.") +
         (" Model '" + name + "' loading failed with error: " + text);
}

// Whether a dependency, direct or through an ensemble, belongs to the config.json. Missing models of model
// folders come with a load request or a scan instead.
bool ServableTable::AwaitsConfig(const std::string& ensemble) const {
  const std::set<std::string> used = UsedBy(graph_.All(), ensemble);
  return std::any_of(used.begin(), used.end(), [this](const std::string& name) {
    mutex_.AssertHeld();
    return IsOfConfigLocked(name);
  });
}

std::optional<LoadRequest> ServableTable::ClaimIfDue(const std::string& ensemble) {
  MutexLock lock(mutex_);
  const auto it = entries_.find(ensemble);
  const DependencyGraph::Uses* uses = graph_.UsesOf(ensemble);
  if (it == entries_.end() || it->second.claimed || it->second.owner != Owner::kFolder || uses == nullptr) {
    return std::nullopt;
  }
  Entry& entry = it->second;
  const bool serves = !entry.served.empty();
  if (!graph_.IsDue(ensemble, serves, Builds()) || !DependencyGraph::AllServe(*uses, Builds())) {
    return std::nullopt;
  }
  std::optional<LoadRequest> request;
  if (serves && !entry.from_files) {
    request = LoadRequest{.model_name = ensemble, .config_json = entry.config_json, .files = {}};
  } else if (!serves && entry.awaiting && AwaitsConfig(ensemble)) {
    request = entry.awaiting;
  }
  if (!request) return std::nullopt;
  graph_.NoteTried(ensemble, Builds());
  entry.claimed = true;
  return request;
}

void ServableTable::SetUses(const std::string& pipeline, DependencyGraph::Uses uses) {
  MutexLock lock(mutex_);
  graph_.Forget(pipeline);
  graph_.Want(pipeline, std::move(uses), std::nullopt);
}

bool ServableTable::IsDue(const std::string& pipeline) const {
  MutexLock lock(mutex_);
  const auto entry = entries_.find(pipeline);
  return entry != entries_.end() && graph_.IsDue(pipeline, !entry->second.served.empty(), Builds());
}

uint64_t ServableTable::NoteTry(const std::string& pipeline) {
  MutexLock lock(mutex_);
  return graph_.NoteTried(pipeline, Builds());
}

void ServableTable::NoteMade(const std::string& pipeline, uint64_t key) {
  MutexLock lock(mutex_);
  const DependencyGraph::Uses* uses = graph_.UsesOf(pipeline);
  if (uses != nullptr) graph_.Made(pipeline, DependencyGraph::Uses(*uses), key);
}

uint64_t ServableTable::KeyOf(const DependencyGraph::Uses& uses) const {
  MutexLock lock(mutex_);
  return DependencyGraph::KeyOf(uses, Builds());
}

}  // namespace braid
