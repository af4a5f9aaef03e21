// WorkerSegment: a segment that a worker has made, as the server shows it to other workers.
//
// They know it by an id of the server's own, because the maker's is unique only among the maker's. It stays
// while it is announced or a block in it is held; when it goes, those who have mapped it are told. That is so
// as well when its maker is dead.
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
  // Its name in the server's messages.
  uint32_t id() const { return id_; }
  // A worker that maps it.
  void AddViewer(std::weak_ptr<WorkerMemory> viewer);

 private:
  const std::shared_ptr<Segment> memory_;  // shared with readers of blocks
  const uint32_t id_;
  Mutex mutex_;
  std::vector<std::weak_ptr<WorkerMemory>> viewers_ BRAID_GUARDED_BY(mutex_);
};

}  // namespace braid
