// Memory for the inputs of one request, taken from where its servable reads them: small inputs share one
// block, large ones have their own, so that a tensor can be handed on without its neighbours.
//
//   InputMemory memory(servable.input_allocator());
//   for (size_t size : sizes) memory.Expect(size);
//   for (...) BRAID_ASSIGN_OR_RETURN(tensor.data, memory.Take(size));
#pragma once

#include <cstddef>

#include "base/status.h"
#include "tensor/buffer.h"

namespace braid {

class InputMemory {
 public:
  // Inputs that together take no more than this share one block.
  static constexpr size_t kSharedBytes = size_t{64} * 1024;

  explicit InputMemory(BufferAllocator& allocator) : allocator_(allocator) {}

  // All sizes, before the first is taken.
  void Expect(size_t size) {
    if (size <= kSharedBytes) shared_ += Aligned(size);
  }
  // Empty for 0 bytes. REQUIRES: the size was expected. Errors: the allocator's.
  Result<Buffer> Take(size_t size) {
    if (size == 0) return Buffer();
    if (size > kSharedBytes || shared_ > kSharedBytes) return allocator_.Allocate(size);
    if (block_.empty()) {
      BRAID_ASSIGN_OR_RETURN(block_, allocator_.Allocate(shared_));
    }
    Buffer taken = block_.Slice(offset_, size);
    offset_ += Aligned(size);
    return taken;
  }

 private:
  static size_t Aligned(size_t size) { return (size + 63) / 64 * 64; }

  BufferAllocator& allocator_;
  size_t shared_ = 0;
  Buffer block_;
  size_t offset_ = 0;
};

}  // namespace braid
