// Bytes that another process can write to while they are read, and how to parse them all the same.
#pragma once

#include "base/status.h"
#include "tensor/buffer.h"

namespace braid {

// What owners of buffers are that lie in memory which other processes have mapped too.
class SharedBytes {
 public:
  virtual ~SharedBytes() = default;
};

// The same bytes where no other process can change them: the buffer itself, or a copy of it on the heap. For
// what is about to be parsed: a length that is read twice, and differs, leads out of the memory that the
// first one was good for. Errors: UNAVAILABLE.
Result<Buffer> OutOfReach(const Buffer& buffer);

}  // namespace braid
