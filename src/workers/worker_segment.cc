#include "workers/worker_segment.h"

#include "workers/worker_memory.h"

namespace braid {

WorkerSegment::~WorkerSegment() {
  for (const auto& viewer : viewers_) {
    if (auto memory = viewer.lock()) memory->RetireOwn(id_);
  }
}

void WorkerSegment::AddViewer(std::weak_ptr<WorkerMemory> viewer) {
  MutexLock lock(mutex_);
  // Removes workers that have ended while the segment of a busy model remains.
  std::erase_if(viewers_, [](const auto& old) { return old.expired(); });
  viewers_.push_back(std::move(viewer));
}

}  // namespace braid
