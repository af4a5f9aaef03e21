#include "tensor/shared_bytes.h"

#include <sys/mman.h>

#include <cstring>
#include <utility>

namespace braid {

void SharedMapping::UnmapBy(Unmap unmap) {
  std::call_once(once_, [&] { unmap_ = std::move(unmap); });
}

SharedMapping::~SharedMapping() {
  if (unmap_) {
    unmap_(base_, size_);
  } else if (base_ != nullptr) {
    munmap(base_, size_);
  }
}

Result<Buffer> OutOfReach(const Buffer& buffer) {
  if (buffer.empty() || dynamic_cast<const SharedBytes*>(buffer.owner()) == nullptr) return buffer;
  BRAID_ASSIGN_OR_RETURN(Buffer copy, HeapAllocator().Allocate(buffer.size()));
  std::memcpy(copy.mutable_data(), buffer.data(), buffer.size());
  return copy;
}

}  // namespace braid
