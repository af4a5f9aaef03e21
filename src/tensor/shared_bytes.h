// Bytes that another process may change while they are read, and a way to parse them safely.
#pragma once

#include <cstddef>
#include <functional>
#include <mutex>

#include "base/status.h"
#include "tensor/buffer.h"

namespace braid {

// A mapping of shared memory; the destructor unmaps it.
class SharedMapping {
 public:
  SharedMapping(const SharedMapping&) = delete;
  SharedMapping& operator=(const SharedMapping&) = delete;

  std::byte* base() const { return base_; }
  size_t size() const { return size_; }
  // Lets `unmap` unmap the memory, on the thread that releases the mapping. A device that has pinned the
  // memory must unpin it first. Thread-safe; only the first call has an effect.
  using Unmap = std::function<void(std::byte* base, size_t size)>;
  void UnmapBy(Unmap unmap);

 protected:
  // A null `base` maps nothing.
  SharedMapping(std::byte* base, size_t size) : base_(base), size_(size) {}
  ~SharedMapping();

 private:
  std::byte* const base_;
  const size_t size_;
  std::once_flag once_;
  Unmap unmap_;
};

// The interface of buffer owners whose memory is shared with other processes.
class SharedBytes {
 public:
  virtual ~SharedBytes() = default;
  // The mapping that contains the bytes; null if it must not be pinned.
  virtual SharedMapping* mapping() const { return nullptr; }
};

// Returns the bytes where no other process can change them: the buffer itself, or a copy on the heap. Use it
// before parsing: if a length differs between two reads, the parser would leave the memory that it has
// checked. Errors: UNAVAILABLE.
Result<Buffer> OutOfReach(const Buffer& buffer);

}  // namespace braid
