// NativeMemory: a native worker's end of the memory that it and the server lend each other, see ipc/messages.h.
//
// Inputs are read where the server has put them; outputs that were written to outputs() go to the server as they are.
// Any thread.
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
  // `channel` outlives it. It outlives all buffers that it has given out.
  explicit NativeMemory(Channel& channel) : channel_(channel), outputs_(*this) {}

  // Before anything is allocated: how much idle memory stays mapped.
  void Configure(size_t keep_bytes);
  // Where outputs are to be written. REQUIRES: Configure() was called.
  BufferAllocator& outputs() { return outputs_; }

  // A segment of the server's has come, or it names one no more.
  void AddSegment(std::shared_ptr<Segment> segment) { segments_.Add(std::move(segment)); }
  bool OnRetire(std::span<const std::byte> message);
  // The bytes of an input. What lies in memory of the server is given back with the last share in it, by
  // TakeReleases(). Waits for a segment that is on its way. Errors: INVALID_ARGUMENT when there is no such memory;
  // UNAVAILABLE when there is none for a copy.
  Result<Buffer> Take(const TensorMessage& tensor);
  // What the server is to be told of next.
  std::vector<MemoryHandle> TakeReleases();

  // Says in `tensor` where the server finds the bytes of an output, which are held until it gives them back. Small ones
  // stay where they are until the message is encoded. `part`: the buffer may be one of several that lie side by side.
  // Errors: UNAVAILABLE when memory cannot be had or handed over.
  Status Place(const Buffer& buffer, bool part, TensorMessage& tensor);
  // Undoes Place() of what is not sent.
  void Unplace(const TensorMessage& tensor);
  bool OnRelease(std::span<const std::byte> message);

  // Gives idle memory back to the system, and tells the server.
  void Trim();
  // Whether Trim() is to be called again before long.
  bool has_to_trim() const;

 private:
  // What is allocated is known by its address, whoever owns it then.
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
  // The segment of outputs() that a buffer lies in, or null.
  std::shared_ptr<Segment> SegmentOf(const Buffer& buffer);
  void Release(const MemoryHandle& handle);

  Channel& channel_;
  SegmentMap segments_;  // the server's
  SegmentIds ids_;
  Outputs outputs_;
  std::unique_ptr<Arena> arena_;  // constant after Configure()

  mutable Mutex mutex_;  // a leaf lock
  // Those of arena_, by where they begin, as long as they are there.
  std::map<const std::byte*, std::weak_ptr<Segment>> made_ BRAID_GUARDED_BY(mutex_);
  std::unordered_set<uint32_t> announced_ BRAID_GUARDED_BY(mutex_);  // those that the server knows
  std::map<Key, Lent> lent_ BRAID_GUARDED_BY(mutex_);                // what the server holds
  std::vector<MemoryHandle> releases_ BRAID_GUARDED_BY(mutex_);
};

}  // namespace braid
