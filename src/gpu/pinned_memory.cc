#include "gpu/pinned_memory.h"

#include <sys/mman.h>

#include <utility>

#include "base/guard.h"

namespace braid {

void PinnedMemory::Pin(const Buffer& buffer, const std::shared_ptr<CudaContext>& device, Thread thread) {
  const auto* shared = dynamic_cast<const SharedBytes*>(buffer.owner());
  Pin(shared == nullptr ? nullptr : shared->mapping(), device, std::move(thread));
}

void PinnedMemory::Pin(SharedMapping* mapping, const std::shared_ptr<CudaContext>& device, Thread thread) {
  if (mapping == nullptr || mapping->size() > max_bytes_) return;
  {
    MutexLock lock(mutex_);
    if (const auto known = ranges_.find(mapping->base()); known != ranges_.end()) {
      if (!known->second.device.expired()) return;
      ranges_.erase(known);
    }
    if (mapping->size() > max_bytes_ - UsedLocked()) return;
    ranges_.emplace(mapping->base(), Range{device, std::move(thread), mapping->size()});
  }
  mapping->UnmapBy([self = shared_from_this()](std::byte* base, size_t size) { self->Unmap(base, size); });
  if (device->Pin({mapping->base(), mapping->size()}).ok()) return;
  MutexLock lock(mutex_);
  ranges_.at(mapping->base()).bytes = 0;
}

uint64_t PinnedMemory::used_bytes() const {
  MutexLock lock(mutex_);
  return UsedLocked();
}

uint64_t PinnedMemory::UsedLocked() const {
  uint64_t used = 0;
  for (const auto& [base, range] : ranges_) used += range.device.expired() ? 0 : range.bytes;
  return used;
}

void PinnedMemory::Unmap(std::byte* base, size_t size) {
  const RetryingAllocation retrying;
  Range range;
  {
    MutexLock lock(mutex_);
    if (auto known = ranges_.extract(base)) range = std::move(known.mapped());
  }
  if (range.bytes == 0) {
    munmap(base, size);
    return;
  }
  range.thread([device = range.device, base, size] {
    if (const auto context = device.lock()) context->Unpin(base);
    munmap(base, size);
  });
}

}  // namespace braid
