// ReadBlock: memory that one thread reads its sockets into, one read after the other. What is made of a read
// may keep its part of the block, which is then replaced when it is full; a block of which nothing is kept is
// used again from its start.
#pragma once

#include <cstddef>
#include <span>

#include "tensor/buffer.h"

namespace braid {

class ReadBlock {
 public:
  explicit ReadBlock(size_t bytes) : bytes_(bytes) {}

  // Where the next read goes, at least a quarter of the block. Errors: std::bad_alloc.
  std::span<char> Room();
  // The first `bytes` of the room are there.
  void Fill(size_t bytes) { used_ += bytes; }
  // What Room() lay in.
  const Buffer& buffer() const { return block_; }

 private:
  const size_t bytes_;
  Buffer block_;
  size_t used_ = 0;
};

}  // namespace braid
