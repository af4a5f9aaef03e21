// WorkerMemory: the shared memory that the server and one worker lend each other.
//
// The server lends blocks with inputs; the worker lends blocks with outputs. Each side frees only its own
// allocations, after the other side has returned them. WorkerMemory lives as long as a buffer of the worker
// is in use, even after the worker's death: the memory exists until its last mapping is gone.
//
// Memory of another worker or another model's arena is lent on without a copy if the buffer has a segment to
// itself. Otherwise it is copied, so that the worker cannot see its neighbours. Bytes that other processes
// can see are marked (Place::kSharedMemory); the worker gives its user code a private view of them.
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
  // Blocks that the worker returned with one message, by start; several tensors may be in one block.
  using Returned = std::vector<std::pair<MemoryHandle, Buffer>>;

  // The model's `arena` provides memory for bytes that are not in shared memory yet. It outlives the last
  // loan and the last Take().
  WorkerMemory(std::shared_ptr<Channel> channel, Arena& arena);

  // The buffers that one message lends to the worker. The destructor takes them back unless the message was
  // sent: the worker cannot return memory that it does not know of.
  class Loan {
   public:
    explicit Loan(WorkerMemory& memory) : memory_(memory) {}
    ~Loan();
    Loan(const Loan&) = delete;
    Loan& operator=(const Loan&) = delete;

    // Describes a buffer in `tensor`. Small ones are inline: `tensor.bytes` points into `buffer`. Others are
    // named by their place, and kept until the worker returns them. `sole`: only the caller holds the bytes,
    // so the worker may change them. Any thread. Errors: UNAVAILABLE when memory cannot be allocated or
    // handed over.
    Status Lend(const Buffer& buffer, bool sole, TensorMessage& tensor);
    // The message was sent.
    void Keep() { lent_.clear(); }

   private:
    WorkerMemory& memory_;
    boost::container::small_vector<MemoryHandle, 8> lent_;
  };

  // Returns the bytes that the worker names in a response; if `device`, they may be on a GPU
  // (Buffer::on_device()). Only the receiving thread. Errors: INVALID_ARGUMENT when the worker names memory
  // that it may not; it must be ended.
  Result<Buffer> Take(const TensorMessage& tensor, Returned& returned, bool device = false);

  // Receives the segments that the worker has sent. Only the receiving thread. Errors: as for Take().
  Status ReceiveSegments();
  // The worker returns lent memory. Only the receiving thread. Errors: as for Take().
  Status OnRelease(const ReleaseMessage& message) { return Return(message.handles); }
  // The worker retires one of its own segments. Only the receiving thread. Errors: as for Take().
  Status OnRetire(uint32_t segment);
  // Tells the worker to unmap a deleted segment of the server or of another worker. Any thread.
  void RetireOwn(uint32_t segment);

  // Ends the exchange with a dead worker: takes back lent memory, and sends nothing more. Must be called in
  // the end: a block of the worker that was lent back to it holds a reference to this object.
  void Abandon();

 private:
  class WorkerBlock;
  using LentKey = std::pair<uint32_t, uint64_t>;
  struct Lent {
    Buffer buffer;
    uint32_t times = 0;
  };

  // How the worker can see a buffer without a copy: by the id of its segment, and the worker that made the
  // segment.
  struct Showable {
    uint32_t id = 0;  // 0: it must be copied
    bool sole = false;
    WorkerSegment* made_by_worker = nullptr;
  };
  Status Lend(const Buffer& buffer, bool sole, TensorMessage& tensor);
  // Errors: one of them is not lent.
  Status Return(std::span<const MemoryHandle> handles);
  Showable ShowableAs(const Buffer& buffer, bool sole) const;
  Status Announce(const Segment& segment, const Showable& as) BRAID_REQUIRES(mutex_);
  Result<std::shared_ptr<WorkerSegment>> FindSegment(uint32_t id);
  void Release(const MemoryHandle& handle);

  const std::shared_ptr<Channel>
      channel_;  // shared with the instance; in use as long as buffers of the worker live
  Arena& arena_;
  std::atomic<bool> abandoned_{false};

  // Owned by the receiving thread: the worker's segments, by the worker's ids.
  SegmentMap worker_segments_;
  std::unordered_map<uint32_t, std::shared_ptr<WorkerSegment>> known_segments_;  // shared with blocks in them

  Mutex mutex_;
  std::map<LentKey, Lent> lent_ BRAID_GUARDED_BY(mutex_);
  std::unordered_set<uint32_t> announced_ BRAID_GUARDED_BY(mutex_);

  // Bytes of returned blocks in messages for which the worker was not woken.
  std::atomic<uint64_t> quietly_released_{0};
};

// Whether only `inputs` hold the bytes of tensor `index`, and no other input overlaps them. The instance may
// then change those bytes. REQUIRES: the tensor is not empty.
bool IsSoleHolder(const std::vector<Tensor>& inputs, size_t index);

}  // namespace braid
