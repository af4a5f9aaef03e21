#include "connection.h"

#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

namespace braid::floor {

Connection::~Connection() {
  for (const Piece& piece : pieces_) {
    if (piece.given_back != kNoSlot) calls_->GiveBack(piece.given_back);
  }
  std::erase(*unsent_, this);
  close(socket_);
}

void Connection::WantWrite() {
  if (!queued_) unsent_->push_back(this);
  queued_ = true;
}

void Connection::AddText(std::string_view text) {
  if (pieces_.empty() || pieces_.back().data != nullptr || pieces_.back().given_back != kNoSlot) {
    pieces_.push_back({nullptr, {}, 0, kNoSlot});
  }
  pieces_.back().text += text;
  pieces_.back().size += text.size();
}

void Connection::AddGiveBack(uint32_t slot) {
  if (pieces_.empty()) return calls_->GiveBack(slot);
  if (pieces_.back().given_back != kNoSlot) pieces_.push_back({nullptr, {}, 0, kNoSlot});
  pieces_.back().given_back = slot;
}

bool Connection::Write() {
  queued_ = false;
  blocked_ = false;
  if (!Fill()) return false;
  while (!pieces_.empty()) {
    iovec vectors[64];
    const size_t count = std::min<size_t>(pieces_.size(), 64);
    for (size_t k = 0; k < count; ++k) {
      const Piece& piece = pieces_[k];
      const char* data = piece.data != nullptr ? piece.data : piece.text.data();
      const size_t skip = k == 0 ? written_ : 0;
      vectors[k] = {const_cast<char*>(data) + skip, piece.size - skip};
    }
    const ssize_t sent = writev(socket_, vectors, static_cast<int>(count));
    if (sent < 0 && errno != EAGAIN) return false;
    if (sent < 0) {
      blocked_ = true;
      return true;
    }
    written_ += static_cast<size_t>(sent);
    while (!pieces_.empty() && written_ >= pieces_.front().size) {
      written_ -= pieces_.front().size;
      if (pieces_.front().given_back != kNoSlot) calls_->GiveBack(pieces_.front().given_back);
      pieces_.pop_front();
    }
    if (pieces_.empty() && !Fill()) return false;
  }
  return true;
}

}  // namespace braid::floor
