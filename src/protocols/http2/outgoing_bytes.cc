#include "protocols/http2/outgoing_bytes.h"

#include <sys/uio.h>

#include <algorithm>

namespace braid {

void OutgoingBytes::Append(std::string_view bytes) {
  if (bytes.empty()) return;
  const size_t offset = copied_.size();
  copied_ += bytes;
  if (pieces_.size() > first_ && pieces_.back().shared.owner() == nullptr) {
    pieces_.back().size += bytes.size();
  } else {
    pieces_.push_back({{}, offset, bytes.size()});
  }
  size_ += bytes.size();
}

void OutgoingBytes::Refer(Buffer bytes) {
  if (bytes.empty()) return;
  const size_t size = bytes.size();
  pieces_.push_back({std::move(bytes), 0, size});
  size_ += size;
}

size_t OutgoingBytes::Gather(std::span<iovec> to) const {
  size_t count = 0;
  for (size_t i = first_; i < pieces_.size() && count < to.size(); ++i, ++count) {
    const Piece& piece = pieces_[i];
    const char* bytes =
        piece.shared.owner() == nullptr ? copied_.data() + piece.offset : piece.shared.text().data();
    const size_t skip = i == first_ ? sent_ : 0;
    // writev() only reads, but takes non-const pointers.
    to[count] = {const_cast<char*>(bytes + skip), piece.size - skip};
  }
  return count;
}

void OutgoingBytes::Consume(size_t bytes) {
  size_ -= bytes;
  while (bytes > 0) {
    Piece& piece = pieces_[first_];
    const size_t part = std::min(bytes, piece.size - sent_);
    sent_ += part;
    bytes -= part;
    if (sent_ < piece.size) return;
    piece.shared = Buffer();
    ++first_;
    sent_ = 0;
  }
  if (size_ == 0) Clear();
}

void OutgoingBytes::Clear() {
  copied_.clear();
  pieces_.clear();
  first_ = sent_ = size_ = 0;
}

}  // namespace braid
