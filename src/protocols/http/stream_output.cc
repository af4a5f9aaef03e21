#include "protocols/http/stream_output.h"

#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>

#include "base/guard.h"

namespace braid {
namespace {

// Sent bytes are removed from waiting_ when they are at least this many, and half of all.
constexpr size_t kTrimBytes = size_t{256} * 1024;

iovec Piece(std::string_view text) { return {const_cast<char*>(text.data()), text.size()}; }

}  // namespace

void StreamOutput::Begin(const HttpResponse& head, bool chunked, bool close) {
  MutexLock lock(mutex_);
  head_.clear();
  AppendResponseHead(head_, head, chunked ? "Transfer-Encoding: chunked" : "", close ? "close" : "");
  chunked_ = chunked;
  failed_ = false;
  FreeText(waiting_);
  sent_ = 0;
}

StreamOutput::Added StreamOutput::Append(ClientSocket& socket, std::string_view part) {
  MutexLock lock(mutex_);
  if (failed_) return Added::kFailed;
  if (waiting_.size() - sent_ > max_waiting_) {
    Fail();
    return Added::kFull;
  }
  // An empty chunk would end the body.
  if (part.empty()) return waiting_.empty() ? Added::kSent : Added::kWaits;
  char size_line[24];
  char* end = std::to_chars(size_line, size_line + 16, part.size(), 16).ptr;
  *end++ = '\r';
  *end++ = '\n';
  if (!chunked_) end = size_line;
  std::array<iovec, 4> pieces = {Piece(head_),
                                 {size_line, static_cast<size_t>(end - size_line)},
                                 Piece(part),
                                 Piece(chunked_ ? "\r\n" : "")};
  return Add(socket, pieces);
}

StreamOutput::Added StreamOutput::End(ClientSocket& socket) {
  MutexLock lock(mutex_);
  if (failed_) return Added::kFailed;
  std::array<iovec, 2> pieces = {Piece(head_), Piece(chunked_ ? "0\r\n\r\n" : "")};
  return Add(socket, pieces);
}

StreamOutput::Added StreamOutput::Add(ClientSocket& socket, std::span<const iovec> pieces) {
  const bool waited = !waiting_.empty();
  size_t written = 0;
  if (!waited) {
    ssize_t result = 0;
    do {
      result = socket.Send(pieces);
    } while (result < 0 && errno == EINTR);
    if (result < 0 && errno != EAGAIN && errno != EWOULDBLOCK) {
      Fail();
      return Added::kFailed;
    }
    if (result > 0) written = static_cast<size_t>(result);
  }
  const Status kept = Guarded([&] {
    mutex_.AssertHeld();  // runs within this function, under the lock
    for (const iovec& piece : pieces) {
      const size_t skip = std::min(written, piece.iov_len);
      written -= skip;
      waiting_.append(static_cast<const char*>(piece.iov_base) + skip, piece.iov_len - skip);
    }
  });
  // A truncated body is better than one with missing bytes inside.
  if (!kept.ok()) {
    Fail();
    return Added::kFailed;
  }
  head_.clear();
  charge_.Set(static_cast<int64_t>(waiting_.size()));
  if (waiting_.empty()) return Added::kSent;
  return waited ? Added::kWaits : Added::kBlocked;
}

Outgoing::Progress StreamOutput::Flush(ClientSocket& socket) {
  MutexLock lock(mutex_);
  if (failed_) return Outgoing::Progress::kFailed;
  while (sent_ < waiting_.size()) {
    const iovec left = Piece(std::string_view(waiting_).substr(sent_));
    const ssize_t written = socket.Send({&left, 1});
    if (written >= 0) {
      sent_ += static_cast<size_t>(written);
      continue;
    }
    if (errno == EINTR) continue;
    if (errno != EAGAIN && errno != EWOULDBLOCK) {
      Fail();
      return Outgoing::Progress::kFailed;
    }
    if (sent_ >= kTrimBytes && sent_ >= waiting_.size() / 2) {
      waiting_.erase(0, sent_);
      sent_ = 0;
    }
    return Outgoing::Progress::kBlocked;
  }
  FreeText(waiting_);
  charge_.Set(0);
  sent_ = 0;
  return Outgoing::Progress::kDone;
}

void StreamOutput::Abandon() {
  MutexLock lock(mutex_);
  Fail();
}

void StreamOutput::Fail() {
  failed_ = true;
  FreeText(head_);
  FreeText(waiting_);
  charge_.Set(0);
  sent_ = 0;
}

}  // namespace braid
