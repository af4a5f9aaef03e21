// PinnedMemory: shared memory whose pages are locked, so that devices can copy from and to it directly. The
// driver copies unpinned memory in pieces through its own buffers.
//
//   auto pinned = std::make_shared<PinnedMemory>(max_bytes);
//   pinned->Pin(buffer, context, thread);   // if it cannot be pinned, the copy works all the same
//   BRAID_RETURN_IF_ERROR(context->CopyFrom(address, {buffer.mutable_data(), buffer.size()}));
//
// Pages are pinned in place, so no extra copy is needed. Pinning takes longer than copying, so memory stays
// pinned as long as it is mapped, and arenas reuse it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>

#include "base/mutex.h"
#include "gpu/cuda_context.h"
#include "tensor/buffer.h"
#include "tensor/shared_bytes.h"

namespace braid {

// Thread-safe.
class PinnedMemory : public std::enable_shared_from_this<PinnedMemory> {
 public:
  // Runs a function on a thread that may wait for the device.
  using Thread = std::function<void(std::function<void()>)>;

  explicit PinnedMemory(uint64_t max_bytes) : max_bytes_(max_bytes) {}

  // Pins a mapping, unless it is null or pinned, there is no room, or the driver has refused it before. It is
  // unpinned on `thread` before it is unmapped, or by the driver when the context ends. Blocks as the driver
  // does. REQUIRES: a std::shared_ptr owns this object.
  void Pin(SharedMapping* mapping, const std::shared_ptr<CudaContext>& device, Thread thread);
  // Like above, for the mapping that contains `buffer`, if it is shared memory.
  void Pin(const Buffer& buffer, const std::shared_ptr<CudaContext>& device, Thread thread);

  uint64_t max_bytes() const { return max_bytes_; }
  uint64_t used_bytes() const;

 private:
  struct Range {
    std::weak_ptr<CudaContext> device;
    Thread thread;
    size_t bytes = 0;  // 0: the driver has refused it
  };
  void Unmap(std::byte* base, size_t size);
  uint64_t UsedLocked() const BRAID_REQUIRES(mutex_);

  const uint64_t max_bytes_;
  mutable Mutex mutex_;
  std::map<std::byte*, Range> ranges_ BRAID_GUARDED_BY(mutex_);
};

}  // namespace braid
