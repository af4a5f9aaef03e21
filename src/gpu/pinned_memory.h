// PinnedMemory: memory between processes that is locked in its place, so that devices copy from and to it by themselves. What is
// not pinned the driver copies in pieces, by way of memory of its own.
//
//   auto pinned = std::make_shared<PinnedMemory>(max_bytes);
//   pinned->Pin(buffer, context, thread);   // what is not pinned then is copied all the same
//   BRAID_RETURN_IF_ERROR(context->CopyFrom(address, {buffer.mutable_data(), buffer.size()}));
//
// Pages are pinned where they are, so nothing is copied once more for it. That takes longer than to copy them, so what is pinned
// stays pinned as long as it is mapped, and arenas use it again.
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

// Any thread.
class PinnedMemory : public std::enable_shared_from_this<PinnedMemory> {
 public:
  // Does something on a thread that may wait for the device.
  using Thread = std::function<void(std::function<void()>)>;

  explicit PinnedMemory(uint64_t max_bytes) : max_bytes_(max_bytes) {}

  // Pins a mapping, unless it is null, or pinned, or there is no room for it, or the driver has refused it once. That is undone on `thread`
  // before it is unmapped, or by the driver with the end of the context. Blocks as the driver does. REQUIRES: this is a
  // std::shared_ptr's.
  void Pin(SharedMapping* mapping, const std::shared_ptr<CudaContext>& device, Thread thread);
  // The same for what `buffer` lies in, if that is memory between processes.
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
