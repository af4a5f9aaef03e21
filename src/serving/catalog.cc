#include "serving/catalog.h"

#include <iterator>

namespace braid {
namespace {

Status NotFound(std::string_view name, std::string_view rest) {
  return NotFoundError("Request for unknown model: '" + std::string(name) + "'" + std::string(rest));
}

Status VersionNotFound(std::string_view name, int64_t version) {
  return NotFound(name, " version " + std::to_string(version) + " is not found");
}

constexpr std::string_view kUnloadedReason = "unloaded";

}  // namespace

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

Catalog::Catalog() : snapshot_(std::make_shared<const Snapshot>()) {}
Catalog::~Catalog() = default;

void Catalog::AddModel(const std::string& name) {
  std::lock_guard lock(mutex_);
  models_.try_emplace(name);
  RebuildLocked();
}

void Catalog::RemoveModel(const std::string& name) {
  std::lock_guard lock(mutex_);
  models_.erase(name);
  RebuildLocked();
}

void Catalog::SetState(const std::string& name, int64_t version, VersionState state, std::string reason) {
  BRAID_CHECK(state != VersionState::kReady);
  std::lock_guard lock(mutex_);
  models_[name][version] = Version{state, std::move(reason), nullptr};
  RebuildLocked();
}

void Catalog::SetReason(const std::string& name, int64_t version, VersionState state, std::string reason) {
  std::lock_guard lock(mutex_);
  auto model = models_.find(name);
  if (model == models_.end()) return;
  auto entry = model->second.find(version);
  if (entry != model->second.end() && entry->second.state == state) entry->second.reason = std::move(reason);
}

std::shared_ptr<Servable> Catalog::Publish(std::shared_ptr<Servable> servable) {
  std::lock_guard lock(mutex_);
  Version& entry = models_[servable->info().name][servable->info().version];
  std::shared_ptr<Servable> before = std::move(entry.servable);
  entry = Version{VersionState::kReady, "", std::move(servable)};
  RebuildLocked();
  return before;
}

void Catalog::RebuildLocked() {
  auto rebuilt = std::make_shared<Snapshot>();
  for (const auto& [name, versions] : models_) {
    auto& ready = rebuilt->models[name];
    for (const auto& [number, version] : versions) {
      if (version.servable) ready.emplace(number, version.servable);
    }
  }
  std::shared_ptr<const Snapshot> next = std::move(rebuilt);
  {
    std::lock_guard lock(snapshot_mutex_);
    next.swap(snapshot_);
    generation_.fetch_add(1, std::memory_order_release);
  }
}

std::shared_ptr<const Catalog::Snapshot> Catalog::snapshot() const {
  std::lock_guard lock(snapshot_mutex_);
  return snapshot_;
}

std::vector<IndexEntry> Catalog::Index(bool ready_only) const {
  std::vector<IndexEntry> index;
  std::lock_guard lock(mutex_);
  for (const auto& [name, versions] : models_) {
    if (versions.empty() && !ready_only)
      index.push_back({name, std::nullopt, VersionState::kUnavailable, ""});
    for (const auto& [number, version] : versions) {
      IndexEntry entry{name, number, version.state, version.reason};
      if (version.servable) {
        Readiness readiness = version.servable->readiness();
        if (!readiness.ready) {
          entry.state = VersionState::kUnavailable;
          entry.reason = std::move(readiness.reason);
        }
      }
      if (!ready_only || entry.state == VersionState::kReady) index.push_back(std::move(entry));
    }
  }
  return index;
}

std::vector<std::shared_ptr<Servable>> Catalog::All() const {
  std::vector<std::shared_ptr<Servable>> all;
  std::lock_guard lock(mutex_);
  for (const auto& [name, versions] : models_) {
    for (const auto& [number, version] : versions) {
      if (version.servable) all.push_back(version.servable);
    }
  }
  return all;
}

Result<std::vector<std::shared_ptr<Servable>>> Catalog::Versions(const std::string& name,
                                                                 int64_t version) const {
  auto now = snapshot();
  auto model = now->models.find(name);
  if (model == now->models.end()) {
    return version < 0 ? NotFound(name, " is not found") : VersionNotFound(name, version);
  }
  std::vector<std::shared_ptr<Servable>> found;
  for (const auto& [number, servable] : model->second) {
    if (version < 0 || number == version) found.push_back(servable);
  }
  if (found.empty())
    return version < 0 ? NotFound(name, " has no available versions") : VersionNotFound(name, version);
  return found;
}

bool Catalog::Knows(std::string_view name, int64_t version) const {
  std::lock_guard lock(mutex_);
  auto model = models_.find(name);
  return model != models_.end() && (version < 0 || model->second.contains(version));
}

Result<std::shared_ptr<Servable>> Catalog::Find(std::string_view name, int64_t version) const {
  const auto now = snapshot();
  const auto model = now->models.find(name);
  if (model == now->models.end()) {
    return version < 0 ? NotFound(name, " is not found") : VersionNotFound(name, version);
  }
  const auto& versions = model->second;
  if (version < 0 && !versions.empty()) return versions.rbegin()->second;
  const auto entry = versions.find(version);
  if (entry != versions.end()) return entry->second;
  return version < 0 ? NotFound(name, " has no available versions") : VersionNotFound(name, version);
}

bool Catalog::AllReady() const {
  std::lock_guard lock(mutex_);
  for (const auto& [name, versions] : models_) {
    for (const auto& [number, version] : versions) {
      const bool ready = version.servable != nullptr && version.servable->readiness().ready;
      const bool unloaded = version.state == VersionState::kUnavailable && version.reason == kUnloadedReason;
      if (!ready && !unloaded) return false;
    }
  }
  return true;
}

Result<std::unique_ptr<ServableHandle>> CatalogReader::Find(std::string_view name, int64_t version) {
  for (;;) {
    const uint64_t generation = catalog_.generation_.load(std::memory_order_acquire);
    if (generation != generation_) {
      snapshot_ = catalog_.snapshot();
      generation_ = generation;
    }
    auto model = snapshot_->models.find(name);
    if (model == snapshot_->models.end()) {
      return version < 0 ? NotFound(name, " is not found") : VersionNotFound(name, version);
    }
    const auto& versions = model->second;
    auto entry = version < 0 ? (versions.empty() ? versions.end() : std::prev(versions.end()))
                             : versions.find(version);
    if (entry != versions.end()) {
      if (auto handle = ServableHandle::Enter(entry->second)) return handle;
      // A gate closes after its servable has left the catalog, so that there is something newer to look at,
      // be it that reloads come faster than this thread runs.
      if (catalog_.generation_.load(std::memory_order_acquire) != generation) continue;
    }
    return version < 0 ? NotFound(name, " has no available versions") : VersionNotFound(name, version);
  }
}

}  // namespace braid
