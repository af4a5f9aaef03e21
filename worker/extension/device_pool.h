// DevicePool: memory of one GPU for outputs that stay there, which other processes map by a descriptor.
//
//   auto pool = std::make_shared<DevicePool>(context, ids, keep_bytes);
//   BRAID_ASSIGN_OR_RETURN(Buffer block, pool->Allocate(size));
//   context->CopyWithin(DevicePool::AddressOf(block), from, size, DevicePool::TakeDirty(block));
//
// Each tensor has a block to itself, so that whoever maps it sees no other. Making one and mapping it elsewhere takes some
// hundred microseconds, so blocks are used again. Any thread.
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

  // `ids` outlives the pool's use; `keep_bytes` is what may be idle.
  DevicePool(std::shared_ptr<CudaContext> context, SegmentIds& ids, size_t keep_bytes);
  ~DevicePool();

  // A buffer on the device, whose owner is a SegmentBlock. REQUIRES: size > 0. Errors: those of the driver.
  Result<Buffer> Allocate(size_t size);
  // Of such a buffer: where its first byte lies.
  static CudaAddress AddressOf(const Buffer& buffer);
  // How far bytes of earlier tensors reach in its block: what lies behind this one has to be zeroed up to there. From now on
  // this one counts.
  static size_t TakeDirty(const Buffer& buffer);

  const std::shared_ptr<CudaContext>& context() const { return context_; }
  size_t idle_bytes() const;
  // What has left the pool since the last call: those who map such a segment are to be told, and the memory is to be let go of
  // where a thread may wait for the driver.
  struct Gone {
    uint32_t segment;
    std::shared_ptr<void> memory;
  };
  std::vector<Gone> TakeGone();

 private:
  class Block;
  // The smallest that fits, and wastes little; null: there is none.
  std::unique_ptr<Block> TakeIdle(size_t size);
  void GiveBack(Block& block);

  const std::shared_ptr<CudaContext> context_;  // shared by all that is on the device
  SegmentIds& ids_;
  const size_t keep_bytes_;
  mutable Mutex mutex_;
  std::list<std::unique_ptr<Block>> idle_ BRAID_GUARDED_BY(mutex_);  // the one that was used last in front
  size_t idle_bytes_ BRAID_GUARDED_BY(mutex_) = 0;
  std::vector<Gone> gone_ BRAID_GUARDED_BY(mutex_);
};

}  // namespace braid
