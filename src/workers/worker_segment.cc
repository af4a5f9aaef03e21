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
  // Workers come and go while a segment of a busy model stays.
  std::erase_if(viewers_, [](const auto& old) { return old.expired(); });
  viewers_.push_back(std::move(viewer));
}

}  // namespace braid
