// WorkerMemory: the shared memory that the server and one worker lend each other.
//
// The server lends blocks that hold inputs; the worker lends blocks that hold outputs. Each side frees only
// what it has allocated, after the other has said that it needs it no more. Lives as long as somebody holds a
// buffer of the worker's, even after the worker has died: the memory itself stays until its last mapping
// goes.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <unordered_set>
#include <utility>
#include <vector>

#include "base/status.h"
#include "ipc/channel.h"
#include "ipc/messages.h"
#include "ipc/segment_map.h"
#include "tensor/buffer.h"

namespace braid {

class WorkerMemory : public std::enable_shared_from_this<WorkerMemory> {
 public:
  // `arena` gives memory for bytes that are not in shared memory yet; it outlives the last Lend().
  WorkerMemory(std::shared_ptr<Channel> channel, BufferAllocator& arena);

  // Describes a buffer for the worker: inline when small, else by its place, which is kept until the worker
  // gives it back. `tensor.bytes` point into `buffer`. Any thread. Errors: UNAVAILABLE when memory cannot be
  // had or handed over.
  Status Lend(const Buffer& buffer, TensorMessage& tensor);

  // The bytes that the worker names in a response. `returned` collects what the worker gave back with this
  // message, so that several tensors may name one block. The receiving thread. Errors: INVALID_ARGUMENT when
  // the worker names what it must not; it is then to be ended.
  Result<Buffer> Take(const TensorMessage& tensor, std::vector<Buffer>& returned);

  // The worker needs lent memory no more. The receiving thread. Errors: as for Take().
  Status OnRelease(const ReleaseMessage& message);
  void OnRetire(uint32_t segment) { worker_segments_.Remove(segment); }
  // A segment of ours is gone; the worker is to unmap it.
  void RetireOwn(uint32_t segment);

  // The worker is dead: what was lent to it is ours again, and it is told nothing more.
  void Abandon();

 private:
  class WorkerBlock;
  using LentKey = std::pair<uint32_t, uint64_t>;
  struct Lent {
    Buffer buffer;
    uint32_t times = 0;
  };

  Status AnnounceLocked(const Segment& segment);
  void Release(const MemoryHandle& handle);

  const std::shared_ptr<Channel>
      channel_;  // shared with the instance; needed as long as buffers of the worker live
  BufferAllocator& arena_;
  SegmentMap worker_segments_;
  std::atomic<bool> abandoned_{false};

  std::mutex mutex_;
  std::map<LentKey, Lent> lent_;            // guarded by mutex_
  std::unordered_set<uint32_t> announced_;  // guarded by mutex_

  // Bytes that the worker does not know to be free yet, because it was not woken for them.
  std::atomic<uint64_t> quietly_released_{0};
};

}  // namespace braid
