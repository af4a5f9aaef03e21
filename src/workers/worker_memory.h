// WorkerMemory: the shared memory that the server and one worker lend each other.
//
// The server lends blocks that hold inputs; the worker lends blocks that hold outputs. Each side frees only
// what it has allocated, after the other has said that it needs it no more. Lives as long as somebody holds a
// buffer of the worker's, even after the worker has died: the memory itself stays until its last mapping
// goes.
//
// What another worker made, or the arena of another model, is lent on without a copy when it has a segment to
// itself; what lies among neighbours is copied, so that they are not shown. Bytes that somebody else can see
// are marked (Place::kSharedMemory), and the worker makes its user code a private view of them.
#pragma once

#include <atomic>
#include <boost/container/small_vector.hpp>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "base/status.h"
#include "ipc/arena.h"
#include "ipc/channel.h"
#include "ipc/messages.h"
#include "ipc/segment_map.h"
#include "tensor/buffer.h"
#include "tensor/tensor.h"
#include "workers/worker_segment.h"

namespace braid {

class WorkerMemory : public std::enable_shared_from_this<WorkerMemory> {
 public:
  // What the worker gave back with one message, by where it starts; several tensors may name one block.
  using Returned = std::vector<std::pair<MemoryHandle, Buffer>>;

  // `arena` is the model's; it gives memory for bytes that are not in shared memory yet, and outlives the
  // last loan and Take().
  WorkerMemory(std::shared_ptr<Channel> channel, Arena& arena);

  // What one message lends to the worker. It is taken back when this goes, unless the message was sent: the
  // worker would never give back what it has not heard of.
  class Loan {
   public:
    explicit Loan(WorkerMemory& memory) : memory_(memory) {}
    ~Loan();
    Loan(const Loan&) = delete;
    Loan& operator=(const Loan&) = delete;

    // Describes a buffer for the worker: inline when small, else by its place, which is kept until the worker
    // gives it back. `sole`: nobody but the caller holds the bytes, so the worker may change them.
    // `tensor.bytes` point into `buffer`. Any thread. Errors: UNAVAILABLE when memory cannot be had or handed
    // over.
    Status Lend(const Buffer& buffer, bool sole, TensorMessage& tensor);
    // The message is on its way.
    void Keep() { lent_.clear(); }

   private:
    WorkerMemory& memory_;
    boost::container::small_vector<MemoryHandle, 8> lent_;
  };

  // The bytes that the worker names in a response, with `device` perhaps on a GPU (Buffer::on_device()). The receiving
  // thread. Errors: INVALID_ARGUMENT when the worker names what it must not; it is then to be ended.
  Result<Buffer> Take(const TensorMessage& tensor, Returned& returned, bool device = false);

  // Takes what segments the worker has handed over until now. The receiving thread. Errors: as for Take().
  Status ReceiveSegments();
  // The worker needs lent memory no more. The receiving thread. Errors: as for Take().
  Status OnRelease(const ReleaseMessage& message) { return Return(message.handles); }
  // The worker names a segment of its own no more. The receiving thread. Errors: as for Take().
  Status OnRetire(uint32_t segment);
  // A segment of ours is gone, or one of another worker's; the worker is to unmap it. Any thread.
  void RetireOwn(uint32_t segment);

  // The worker is dead: what was lent to it is ours again, and it is told nothing more. To be called in the
  // end: a block of the worker's that was lent back to it holds this object.
  void Abandon();

 private:
  class WorkerBlock;
  using LentKey = std::pair<uint32_t, uint64_t>;
  struct Lent {
    Buffer buffer;
    uint32_t times = 0;
  };

  // What the worker can be shown of a buffer as it is: the id under which its segment goes, and the worker's
  // segment that it is. Nothing when it has to be copied.
  struct Showable {
    uint32_t id = 0;  // 0: nothing
    bool sole = false;
    WorkerSegment* made_by_worker = nullptr;
  };
  Status Lend(const Buffer& buffer, bool sole, TensorMessage& tensor);
  // Errors: something of it is not lent.
  Status Return(std::span<const MemoryHandle> handles);
  Showable ShowableAs(const Buffer& buffer, bool sole) const;
  Status Announce(const Segment& segment, const Showable& as) BRAID_REQUIRES(mutex_);
  Result<std::shared_ptr<WorkerSegment>> FindSegment(uint32_t id);
  void Release(const MemoryHandle& handle);

  const std::shared_ptr<Channel>
      channel_;  // shared with the instance; needed as long as buffers of the worker live
  Arena& arena_;
  std::atomic<bool> abandoned_{false};

  // The receiving thread's: the worker's segments by the names it gave them.
  SegmentMap worker_segments_;
  std::unordered_map<uint32_t, std::shared_ptr<WorkerSegment>> known_segments_;  // shared with blocks in them

  Mutex mutex_;
  std::map<LentKey, Lent> lent_ BRAID_GUARDED_BY(mutex_);
  std::unordered_set<uint32_t> announced_ BRAID_GUARDED_BY(mutex_);

  // Bytes that the worker does not know to be free yet, because it was not woken for them.
  std::atomic<uint64_t> quietly_released_{0};
};

// Whether only `inputs` hold the bytes of their tensor `index`, and no other of them has bytes in common with
// it: whoever executes them may then change those bytes. REQUIRES: the tensor is not empty.
bool IsSoleHolder(const std::vector<Tensor>& inputs, size_t index);

}  // namespace braid
