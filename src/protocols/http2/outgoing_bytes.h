// OutgoingBytes: what waits to be written to a socket, in order. Small pieces are copied together, so that
// they leave in one; the bytes of tensors are referenced where they lie. One thread at a time.
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
  // Keeps a share in the buffer until it is written.
  void Refer(Buffer bytes);

  // The first pieces, as many as `to` has room for; returns how many. Valid until the next call that changes
  // something.
  size_t Gather(std::span<iovec> to) const;
  // Forgets the first bytes: they are written. REQUIRES: bytes <= size()
  void Consume(size_t bytes);
  void Clear();

 private:
  struct Piece {
    Buffer shared;      // no owner: in copied_
    size_t offset = 0;  // there
    size_t size = 0;
  };

  std::string copied_;
  std::vector<Piece> pieces_;
  size_t first_ = 0;  // of pieces_
  size_t sent_ = 0;   // of the first
  size_t size_ = 0;
};

}  // namespace braid
