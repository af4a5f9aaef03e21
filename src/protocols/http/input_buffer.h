// InputBuffer: received bytes of a connection that were not consumed. It allocates its memory with the first
// bytes and charges it to the client.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <memory>
#include <span>
#include <string_view>

#include "base/check.h"
#include "base/memory_use.h"

namespace braid {

class InputBuffer {
 public:
  static constexpr size_t kBytes = size_t{64} * 1024;
  // Readable bytes with undefined values that follow the buffer.
  static constexpr size_t kPadding = 64;

  size_t size() const { return end_ - begin_; }
  bool empty() const { return end_ == begin_; }
  bool full() const { return size() == kBytes; }
  std::string_view text() const { return {memory_.get() + begin_, size()}; }

  void Consume(size_t bytes) {
    begin_ += bytes;
    if (begin_ == end_) begin_ = end_ = 0;
  }
  // Moves up to `most` bytes of the front to `to`. Returns their number.
  size_t MoveTo(std::byte* to, size_t most) {
    const size_t bytes = std::min(size(), most);
    if (bytes > 0) std::memcpy(to, text().data(), bytes);
    Consume(bytes);
    return bytes;
  }

  // Return the memory for the next bytes, and add bytes that were received there. REQUIRES: not full.
  std::span<char> Room() {
    if (!memory_) {
      memory_.reset(new char[kBytes + kPadding]);
      charge_.Set(kBytes);
    }
    if (end_ == kBytes && begin_ > 0) {
      std::memmove(memory_.get(), memory_.get() + begin_, size());
      end_ = size();
      begin_ = 0;
    }
    BRAID_CHECK(end_ < kBytes);
    return {memory_.get() + end_, kBytes - end_};
  }
  void Add(size_t bytes) { end_ += bytes; }

  // Frees the memory. REQUIRES: empty.
  void Release() {
    memory_.reset();
    charge_.Set(0);
  }

 private:
  std::unique_ptr<char[]> memory_;
  size_t begin_ = 0;
  size_t end_ = 0;
  MemoryCharge charge_;
};

}  // namespace braid
