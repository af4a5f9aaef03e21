#include "serving/catalog.h"

#include <algorithm>
#include <iterator>

#include "base/utf8.h"
#include "serving/faults.h"

namespace braid {
namespace {

Status NotFound(std::string_view name, std::string_view rest) {
  return NotFoundError("Request for unknown model: '" + Shortened(name) + "'" + std::string(rest));
}

Status VersionNotFound(std::string_view name, int64_t version) {
  return NotFound(name, " version " + std::to_string(version) + " is not found");
}

constexpr std::string_view kUnloadedReason = "unloaded";
constexpr std::string_view kOnDemandReason = "on demand";

bool IsUnloaded(VersionState state, std::string_view reason) {
  return state == VersionState::kUnavailable && reason == kUnloadedReason;
}

// Pipelines and graphs have one version, which answers to any requested number.
bool HasVersions(ServableKind kind) {
  return kind == ServableKind::kModel || kind == ServableKind::kEnsemble;
}

// Returns the version that serves a request, or end(). `versions` are the ready ones.
template <class Versions>
auto Choose(const Versions& versions, int64_t version) {
  if (versions.empty()) return versions.end();
  const auto newest = std::prev(versions.end());
  const ServableInfo& info = newest->second->info();
  // In OpenVINO Model Server's dialect, 0 is the default version too.
  const bool any = version < 0 || (version == 0 && info.dialect == Dialect::kOvms) || !HasVersions(info.kind);
  return any ? newest : versions.find(version);
}

Status OvmsNotFound(ServableKind kind, bool pending) {
  switch (kind) {
    case ServableKind::kPipeline:
      return FaultError(pending ? Fault::kPipelineNotLoadedYet : Fault::kPipelineNotLoadedAnymore);
    case ServableKind::kGraph:
      return FaultError(pending ? Fault::kGraphNotLoadedYet : Fault::kGraphNotLoadedAnymore);
    case ServableKind::kModel:
    case ServableKind::kEnsemble:
      break;
  }
  return FaultError(pending ? Fault::kModelVersionNotLoadedYet : Fault::kModelVersionNotLoadedAnymore);
}

}  // namespace

std::string_view ServableKindName(ServableKind kind) {
  switch (kind) {
    case ServableKind::kModel:
      return "model";
    case ServableKind::kEnsemble:
      return "ensemble";
    case ServableKind::kPipeline:
      return "pipeline";
    case ServableKind::kGraph:
      return "graph";
  }
  return "model";
}

std::string_view VersionStateName(VersionState state) {
  switch (state) {
    case VersionState::kUnavailable:
      return "UNAVAILABLE";
    case VersionState::kLoading:
      return "LOADING";
    case VersionState::kReady:
      return "READY";
    case VersionState::kUnloading:
      return "UNLOADING";
  }
  return "UNAVAILABLE";
}

Catalog::Catalog(Dialect dialect, std::vector<std::string> roots, bool verbose_errors)
    : dialect_(dialect),
      error_texts_(std::move(roots), verbose_errors),
      snapshot_(std::make_shared<const Snapshot>()) {}
Catalog::~Catalog() = default;

void Catalog::AddModel(const std::string& name) {
  MutexLock lock(mutex_);
  models_.try_emplace(name);
  Rebuild();
}

void Catalog::RemoveModel(const std::string& name) {
  MutexLock lock(mutex_);
  models_.erase(name);
  reasons_.erase(name);
  on_demand_.erase(name);
  Rebuild();
}

void Catalog::SetOnDemand(const std::string& name, bool on_demand) {
  MutexLock lock(mutex_);
  if (!on_demand) {
    on_demand_.erase(name);
  } else if (models_.contains(name)) {
    on_demand_.insert(name);
  }
}

bool Catalog::LoadsOnDemandLocked(std::string_view name, const std::map<int64_t, Version>& versions) const {
  return on_demand_.contains(name) && std::none_of(versions.begin(), versions.end(), [](const auto& entry) {
           return entry.second.servable != nullptr;
         });
}

bool Catalog::IsReadyOnDemand(std::string_view name, int64_t version) const {
  MutexLock lock(mutex_);
  const auto model = models_.find(name);
  if (model == models_.end() || !LoadsOnDemandLocked(name, model->second)) return false;
  const auto& versions = model->second;
  if (version >= 0 && !versions.empty() && !versions.contains(version)) return false;
  return !reasons_.contains(name) && std::none_of(versions.begin(), versions.end(), [](const auto& entry) {
    return entry.second.failure != StatusCode::kOk;
  });
}

void Catalog::SetReason(const std::string& name, std::string reason) {
  MutexLock lock(mutex_);
  if (reason.empty()) {
    reasons_.erase(name);
  } else if (models_.contains(name)) {
    reasons_[name] = std::move(reason);
  }
}

void Catalog::SetState(const std::string& name, int64_t version, VersionState state, std::string reason) {
  BRAID_CHECK(state != VersionState::kReady);
  MutexLock lock(mutex_);
  Version& entry = models_[name][version];
  const StatusCode failure = state == VersionState::kUnavailable && reason != kUnloadedReason
                                 ? StatusCode::kUnknown
                                 : StatusCode::kOk;
  entry = Version{state, std::move(reason), nullptr, failure, entry.kind, entry.dialect};
  Rebuild();
}

void Catalog::SetState(const std::string& name, int64_t version, VersionState state, std::string reason,
                       StatusCode failure, ServableKind kind) {
  BRAID_CHECK(state != VersionState::kReady);
  MutexLock lock(mutex_);
  models_[name][version] = Version{state, std::move(reason), nullptr, failure, kind, Dialect::kOvms};
  Rebuild();
}

void Catalog::SetReason(const std::string& name, int64_t version, VersionState state, std::string reason) {
  MutexLock lock(mutex_);
  auto model = models_.find(name);
  if (model == models_.end()) return;
  auto entry = model->second.find(version);
  if (entry != model->second.end() && entry->second.state == state) entry->second.reason = std::move(reason);
}

std::shared_ptr<Servable> Catalog::Publish(std::shared_ptr<Servable> servable) {
  MutexLock lock(mutex_);
  Version& entry = models_[servable->info().name][servable->info().version];
  std::shared_ptr<Servable> before = std::move(entry.servable);
  const ServableKind kind = servable->info().kind;
  const Dialect dialect = servable->info().dialect;
  entry = Version{VersionState::kReady, "", std::move(servable), StatusCode::kOk, kind, dialect};
  Rebuild();
  return before;
}

void Catalog::Rebuild() {
  auto rebuilt = std::make_shared<Snapshot>();
  for (const auto& [name, versions] : models_) {
    auto& ready = rebuilt->models[name];
    for (const auto& [number, version] : versions) {
      if (version.servable) ready.emplace(number, version.servable);
    }
  }
  snapshot_.Set(std::move(rebuilt));
}

std::vector<IndexEntry> Catalog::Index(bool ready_only) const {
  std::vector<std::pair<IndexEntry, std::shared_ptr<Servable>>> all;
  {
    MutexLock lock(mutex_);
    for (const auto& [name, versions] : models_) {
      const bool on_demand = LoadsOnDemandLocked(name, versions);
      if (versions.empty() && !ready_only) {
        const auto reason = reasons_.find(name);
        IndexEntry entry{name, std::nullopt, VersionState::kUnavailable, ""};
        if (on_demand) entry.reason = kOnDemandReason;
        if (reason != reasons_.end()) entry.reason = reason->second;
        all.emplace_back(std::move(entry), nullptr);
      }
      for (const auto& [number, version] : versions) {
        IndexEntry entry{name, number, version.state, version.reason, version.failure, version.kind};
        if (on_demand && IsUnloaded(entry.state, entry.reason)) entry.reason = kOnDemandReason;
        all.emplace_back(std::move(entry), version.servable);
      }
    }
  }
  std::vector<IndexEntry> index;
  for (auto& [entry, servable] : all) {
    if (servable) {
      Readiness readiness = servable->readiness();
      if (!readiness.ready) {
        entry.state = VersionState::kUnavailable;
        entry.reason = std::move(readiness.reason);
      }
    }
    if (!ready_only || entry.state == VersionState::kReady) index.push_back(std::move(entry));
  }
  return index;
}

std::vector<std::shared_ptr<Servable>> Catalog::All() const {
  std::vector<std::shared_ptr<Servable>> all;
  MutexLock lock(mutex_);
  for (const auto& [name, versions] : models_) {
    for (const auto& [number, version] : versions) {
      if (version.servable) all.push_back(version.servable);
    }
  }
  return all;
}

Result<std::vector<std::shared_ptr<Servable>>> Catalog::Versions(const std::string& name,
                                                                 int64_t version) const {
  auto now = snapshot_.Get();
  auto model = now->models.find(name);
  std::vector<std::shared_ptr<Servable>> found;
  if (model != now->models.end()) {
    for (const auto& [number, servable] : model->second) {
      if (version < 0 || number == version) found.push_back(servable);
    }
  }
  if (found.empty()) return WhyNotFound(name, version);
  return found;
}

Status Catalog::WhyNotFound(std::string_view name, int64_t version) const {
  MutexLock lock(mutex_);
  const auto model = models_.find(name);
  if (model == models_.end()) {
    if (dialect_ == Dialect::kOvms) return FaultError(Fault::kModelNameMissing);
    return version < 0 ? NotFound(name, " is not found") : VersionNotFound(name, version);
  }
  const auto& versions = model->second;
  const Dialect dialect = versions.empty() ? dialect_ : versions.rbegin()->second.dialect;
  if (dialect == Dialect::kTriton) {
    Status missing =
        version < 0 ? NotFound(name, " has no available versions") : VersionNotFound(name, version);
    if (!LoadsOnDemandLocked(name, versions)) return missing;
    return {missing.code(), missing.message(), Fault::kLoadsOnDemand};
  }
  if (versions.empty()) return FaultError(Fault::kModelVersionMissing);
  const ServableKind kind = versions.rbegin()->second.kind;
  const auto pending = [](const Version& one) {
    return one.state == VersionState::kLoading || one.state == VersionState::kReady ||
           one.failure != StatusCode::kOk;
  };
  if (version <= 0 || !HasVersions(kind)) {
    const bool any = std::any_of(versions.begin(), versions.end(),
                                 [&](const auto& entry) { return pending(entry.second); });
    return OvmsNotFound(kind, any);
  }
  const auto entry = versions.find(version);
  if (entry == versions.end()) return FaultError(Fault::kModelVersionMissing);
  return OvmsNotFound(kind, pending(entry->second));
}

bool Catalog::Knows(std::string_view name, int64_t version) const {
  MutexLock lock(mutex_);
  auto model = models_.find(name);
  return model != models_.end() && (version < 0 || model->second.contains(version));
}

Result<std::shared_ptr<Servable>> Catalog::Find(std::string_view name, int64_t version) const {
  const auto now = snapshot_.Get();
  const auto model = now->models.find(name);
  if (model != now->models.end()) {
    const auto entry = Choose(model->second, version);
    if (entry != model->second.end()) return entry->second;
  }
  return WhyNotFound(name, version);
}

bool Catalog::AllReady() const {
  std::vector<std::shared_ptr<Servable>> servables;
  {
    MutexLock lock(mutex_);
    for (const auto& [name, versions] : models_) {
      const bool serves = std::any_of(versions.begin(), versions.end(),
                                      [](const auto& each) { return each.second.servable != nullptr; });
      for (const auto& [number, version] : versions) {
        const bool replaced = version.state == VersionState::kUnloading && serves;
        if (version.servable == nullptr && !IsUnloaded(version.state, version.reason) && !replaced &&
            !on_demand_.contains(name)) {
          return false;
        }
        if (version.servable != nullptr) servables.push_back(version.servable);
      }
    }
  }
  return std::all_of(servables.begin(), servables.end(),
                     [](const auto& servable) { return servable->readiness().ready; });
}

Result<std::unique_ptr<ServableHandle>> CatalogReader::Find(std::string_view name, int64_t version) {
  for (;;) {
    const Catalog::Snapshot& now = *snapshot_.Get();
    const auto model = now.models.find(name);
    if (model == now.models.end()) return catalog_.WhyNotFound(name, version);
    const auto entry = Choose(model->second, version);
    if (entry != model->second.end()) {
      if (auto handle = ServableHandle::Enter(entry->second)) return handle;
      // A gate closes after its servable has left the catalog. So a newer snapshot exists, even if reloads
      // are faster than this thread.
      if (catalog_.generation() != snapshot_.generation()) continue;
    }
    return catalog_.WhyNotFound(name, version);
  }
}

}  // namespace braid
