// WorkerSegment: a segment made by one worker, as the server lends it to other workers.
//
// Other workers know it by an id of the server, since the maker's ids are unique only to the maker. It lives
// while its maker announces it or a block in it is in use. At its end, the workers that have mapped it are
// notified. This also holds after its maker's death.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "base/mutex.h"
#include "ipc/segment.h"

namespace braid {

class WorkerMemory;

// Any thread.
class WorkerSegment {
 public:
  WorkerSegment(std::shared_ptr<Segment> memory, SegmentIds& ids)
      : memory_(std::move(memory)), id_(ids.Next()) {}
  ~WorkerSegment();
  WorkerSegment(const WorkerSegment&) = delete;
  WorkerSegment& operator=(const WorkerSegment&) = delete;

  const std::shared_ptr<Segment>& memory() const { return memory_; }
  // The id in the server's messages.
  uint32_t id() const { return id_; }
  // Adds a worker that maps it.
  void AddViewer(std::weak_ptr<WorkerMemory> viewer);

 private:
  const std::shared_ptr<Segment> memory_;  // shared with readers of blocks
  const uint32_t id_;
  Mutex mutex_;
  std::vector<std::weak_ptr<WorkerMemory>> viewers_ BRAID_GUARDED_BY(mutex_);
};

}  // namespace braid
