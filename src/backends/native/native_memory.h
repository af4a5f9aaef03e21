// NativeMemory: a native worker's end of the memory that it and the server lend each other; see
// ipc/messages.h.
//
// Inputs are read in the server's memory. Outputs written to outputs() go to the server without a copy. Any
// thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
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

namespace braid {

class NativeMemory {
 public:
  // `channel` outlives it, and it outlives all buffers that it has handed out.
  explicit NativeMemory(Channel& channel) : channel_(channel), outputs_(*this) {}

  // Sets how much idle memory stays mapped. REQUIRES: called before any allocation.
  void Configure(size_t keep_bytes);
  // The memory for outputs. REQUIRES: Configure() was called.
  BufferAllocator& outputs() { return outputs_; }

  // A segment of the server has arrived, or the server has retired one. OnRetire() returns false for a
  // malformed message.
  void AddSegment(std::shared_ptr<Segment> segment) { segments_.Add(std::move(segment)); }
  bool OnRetire(std::span<const std::byte> message);
  // Returns the bytes of an input. Memory of the server is returned with its last owner, by TakeReleases().
  // Waits for a segment that has not arrived yet. Errors: INVALID_ARGUMENT for memory that does not exist;
  // UNAVAILABLE when a copy cannot be allocated.
  Result<Buffer> Take(const TensorMessage& tensor);
  // Takes the memory to return to the server with the next message.
  std::vector<MemoryHandle> TakeReleases();

  // Describes in `tensor` where the server finds the bytes of an output, and keeps them until the server
  // returns them. Small outputs are not kept: their bytes must stay valid until the message is encoded.
  // `part`: the buffer may be one of several adjacent ones. Errors: UNAVAILABLE when memory cannot be
  // allocated or handed over.
  Status Place(const Buffer& buffer, bool part, TensorMessage& tensor);
  // Undoes Place() for a message that is not sent. OnRelease() returns false for a malformed message.
  void Unplace(const TensorMessage& tensor);
  bool OnRelease(std::span<const std::byte> message);

  // Returns idle memory to the system, and notifies the server.
  void Trim();
  // Whether Trim() should be called again soon.
  bool has_to_trim() const;

 private:
  // Finds allocated memory by its address, since OpenVINO may wrap it in other owners.
  class Outputs final : public BufferAllocator {
   public:
    explicit Outputs(NativeMemory& memory) : memory_(memory) {}
    Result<Buffer> Allocate(size_t size) override;

   private:
    NativeMemory& memory_;
  };
  class Borrowed;
  using Key = std::pair<uint32_t, uint64_t>;  // segment and offset
  struct Lent {
    Buffer buffer;
    uint32_t times = 0;
  };

  Status Announce(const Segment& segment) BRAID_REQUIRES(mutex_);
  // Returns the segment of outputs() that a buffer lies in, or null.
  std::shared_ptr<Segment> SegmentOf(const Buffer& buffer);
  void Release(const MemoryHandle& handle);

  Channel& channel_;
  SegmentMap segments_;  // the server's segments
  SegmentIds ids_;
  Outputs outputs_;
  std::unique_ptr<Arena> arena_;  // constant after Configure()

  mutable Mutex mutex_;  // a leaf lock
  // Live segments of arena_, by start address.
  std::map<const std::byte*, std::weak_ptr<Segment>> made_ BRAID_GUARDED_BY(mutex_);
  std::unordered_set<uint32_t> announced_ BRAID_GUARDED_BY(mutex_);  // segments known to the server
  std::map<Key, Lent> lent_ BRAID_GUARDED_BY(mutex_);                // memory that the server holds
  std::vector<MemoryHandle> releases_ BRAID_GUARDED_BY(mutex_);
};

}  // namespace braid
