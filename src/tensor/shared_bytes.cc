#include "tensor/shared_bytes.h"

#include <cstring>

namespace braid {

Result<Buffer> OutOfReach(const Buffer& buffer) {
  if (buffer.empty() || dynamic_cast<const SharedBytes*>(buffer.owner()) == nullptr) return buffer;
  BRAID_ASSIGN_OR_RETURN(Buffer copy, HeapAllocator().Allocate(buffer.size()));
  std::memcpy(copy.mutable_data(), buffer.data(), buffer.size());
  return copy;
}

}  // namespace braid
