#include "serving/servable_reference.h"

namespace braid {

Result<std::shared_ptr<Servable>> ServableReference::Get() const {
  const uint64_t generation = catalog_.generation();
  {
    MutexLock lock(mutex_);
    if (generation == generation_) {
      if (auto servable = found_.lock()) return servable;
    }
  }
  BRAID_ASSIGN_OR_RETURN(std::shared_ptr<Servable> servable, catalog_.Find(name_, version_));
  MutexLock lock(mutex_);
  found_ = servable;
  generation_ = generation;
  return servable;
}

Result<std::unique_ptr<ServableHandle>> ServableReference::Enter() const {
  for (;;) {
    const uint64_t generation = catalog_.generation();
    BRAID_ASSIGN_OR_RETURN(std::shared_ptr<Servable> servable, Get());
    if (auto handle = ServableHandle::Enter(std::move(servable))) return handle;
    // A gate closes after its servable has left the catalog, so the catalog has a newer generation.
    if (catalog_.generation() == generation) {
      return NotFoundError("Request for unknown model: '" + name_ + "' has no available versions");
    }
  }
}

}  // namespace braid
