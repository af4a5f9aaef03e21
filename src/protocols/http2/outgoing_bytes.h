// OutgoingBytes: bytes that wait to be written to a socket, in order. Small pieces are copied together, so
// that they leave in one. The bytes of tensors are referenced in place. For use by one thread at a time.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tensor/buffer.h"

struct iovec;

namespace braid {

class OutgoingBytes {
 public:
  size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }

  void Append(std::string_view bytes);
  // Appends a reference to the buffer, which it shares until the bytes are written.
  void Refer(Buffer bytes);

  // Fills `to` with the first pieces, as many as fit. Returns their number. The pieces are valid until the
  // next change.
  size_t Gather(std::span<iovec> to) const;
  // Removes the first bytes, which were written. REQUIRES: bytes <= size()
  void Consume(size_t bytes);
  void Clear();

 private:
  struct Piece {
    Buffer shared;      // without an owner: the bytes are in copied_
    size_t offset = 0;  // in copied_
    size_t size = 0;
  };

  std::string copied_;
  std::vector<Piece> pieces_;
  size_t first_ = 0;  // of pieces_
  size_t sent_ = 0;   // of the first
  size_t size_ = 0;
};

}  // namespace braid
