// DevicePool: memory of one GPU for outputs that stay there; other processes map it by a descriptor.
//
//   auto pool = std::make_shared<DevicePool>(context, ids, keep_bytes);
//   BRAID_ASSIGN_OR_RETURN(Buffer block, pool->Allocate(size));
//   context->CopyWithin(DevicePool::AddressOf(block), from, size, DevicePool::TakeDirty(block));
//
// Each tensor has its own block, so a process that maps the block sees no other tensor. Creating a block and
// mapping it elsewhere takes some hundred microseconds, so blocks are reused. Thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <vector>

#include "base/mutex.h"
#include "base/status.h"
#include "gpu/cuda_context.h"
#include "gpu/device_memory.h"
#include "ipc/segment.h"
#include "tensor/buffer.h"

namespace braid {

class DevicePool : public std::enable_shared_from_this<DevicePool> {
 public:
  static constexpr size_t kKeepBytes = size_t{64} << 20;

  // `ids` outlives the pool and its buffers. `keep_bytes` limits the idle memory.
  DevicePool(std::shared_ptr<CudaContext> context, SegmentIds& ids, size_t keep_bytes);
  ~DevicePool();

  // Returns a buffer on the device; its owner is a SegmentBlock. REQUIRES: size > 0. Errors: those of the
  // driver.
  Result<Buffer> Allocate(size_t size);
  // Returns the device address of such a buffer.
  static CudaAddress AddressOf(const Buffer& buffer);
  // Returns the number of bytes in the block that earlier tensors may have written. The caller must zero the
  // bytes from the end of this tensor up to there. The next call returns the size of this tensor.
  static size_t TakeDirty(const Buffer& buffer);

  const std::shared_ptr<CudaContext>& context() const { return context_; }
  size_t idle_bytes() const;
  // Blocks that left the pool since the last call. The caller notifies the processes that map the segment,
  // and destroys the memory on a thread that may wait for the driver.
  struct Gone {
    uint32_t segment;
    std::shared_ptr<void> memory;
  };
  std::vector<Gone> TakeGone();

 private:
  class Block;
  // Returns the smallest idle block that fits without much waste; null if there is none.
  std::unique_ptr<Block> TakeIdle(size_t size);
  void GiveBack(Block& block);

  const std::shared_ptr<CudaContext> context_;  // shared by all users of the device
  SegmentIds& ids_;
  const size_t keep_bytes_;
  mutable Mutex mutex_;
  std::list<std::unique_ptr<Block>> idle_ BRAID_GUARDED_BY(mutex_);  // most recently used first
  size_t idle_bytes_ BRAID_GUARDED_BY(mutex_) = 0;
  std::vector<Gone> gone_ BRAID_GUARDED_BY(mutex_);
};

}  // namespace braid
