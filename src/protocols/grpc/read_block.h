// ReadBlock: memory into which one thread reads its sockets, one read after another. Users of a read may
// share its part of the block, and a full block is then replaced. A block without sharers is reused from its
// start.
#pragma once

#include <cstddef>
#include <span>

#include "tensor/buffer.h"

namespace braid {

class ReadBlock {
 public:
  explicit ReadBlock(size_t bytes) : bytes_(bytes) {}

  // Returns the memory for the next read, at least a quarter of the block. Throws std::bad_alloc.
  std::span<char> Room();
  // Marks the first `bytes` of the room as read.
  void Fill(size_t bytes) { used_ += bytes; }
  // The buffer of the last Room().
  const Buffer& buffer() const { return block_; }

 private:
  const size_t bytes_;
  Buffer block_;
  size_t used_ = 0;
};

}  // namespace braid
