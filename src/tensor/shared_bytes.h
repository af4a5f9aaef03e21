// Bytes that another process can write to while they are read, and how to parse them all the same.
#pragma once

#include <cstddef>
#include <functional>
#include <mutex>

#include "base/status.h"
#include "tensor/buffer.h"

namespace braid {

// A mapping of memory that other processes have too; unmapped with this.
class SharedMapping {
 public:
  SharedMapping(const SharedMapping&) = delete;
  SharedMapping& operator=(const SharedMapping&) = delete;

  std::byte* base() const { return base_; }
  size_t size() const { return size_; }
  // Has `unmap` unmap it, on whichever thread lets go of it last: a device that has pinned it has to be told before. Any thread;
  // the first counts.
  using Unmap = std::function<void(std::byte* base, size_t size)>;
  void UnmapBy(Unmap unmap);

 protected:
  // Of nothing where `base` is null.
  SharedMapping(std::byte* base, size_t size) : base_(base), size_(size) {}
  ~SharedMapping();

 private:
  std::byte* const base_;
  const size_t size_;
  std::once_flag once_;
  Unmap unmap_;
};

// What owners of buffers are that lie in memory which other processes have mapped too.
class SharedBytes {
 public:
  virtual ~SharedBytes() = default;
  // That they lie in; null where it is not to be pinned.
  virtual SharedMapping* mapping() const { return nullptr; }
};

// The same bytes where no other process can change them: the buffer itself, or a copy of it on the heap. For
// what is about to be parsed: a length that is read twice, and differs, leads out of the memory that the
// first one was good for. Errors: UNAVAILABLE.
Result<Buffer> OutOfReach(const Buffer& buffer);

}  // namespace braid
