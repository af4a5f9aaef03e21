#include "protocols/net/client_socket.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <cstring>

namespace braid {
namespace {

// The maximum size of a TLS record.
constexpr size_t kRecordBytes = size_t{16} << 10;
// A read of at least this size is often followed by another record.
constexpr ssize_t kFullRecord = ssize_t{4} << 10;

// Copies the first bytes of the pieces to `to`, as many as fit. Skips `offset` bytes of the first piece.
std::string_view Gather(std::span<const iovec> pieces, size_t offset, std::span<char> to) {
  size_t size = 0;
  for (const iovec& piece : pieces) {
    const size_t bytes = std::min(piece.iov_len - offset, to.size() - size);
    if (bytes > 0) std::memcpy(to.data() + size, static_cast<const char*>(piece.iov_base) + offset, bytes);
    size += bytes;
    offset = 0;
    if (size == to.size()) break;
  }
  return {to.data(), size};
}

}  // namespace

Result<ClientSocket> ClientSocket::Create(UniqueFd fd, const std::shared_ptr<TlsSource>& tls) {
  std::unique_ptr<TlsStream> stream;
  if (tls != nullptr) {
    BRAID_ASSIGN_OR_RETURN(stream, tls->Accept(fd.get()));
  }
  return ClientSocket(std::move(fd), std::move(stream));
}

ssize_t ClientSocket::Receive(std::span<char> to) {
  if (tls_ == nullptr) return ::recv(fd_.get(), to.data(), to.size(), MSG_DONTWAIT);
  ssize_t all = 0;
  while (!to.empty()) {
    const ssize_t got = tls_->Read(to);
    if (got <= 0) return all > 0 ? all : got;  // the next call meets the same end or error
    all += got;
    if (got < kFullRecord) break;
    to = to.subspan(static_cast<size_t>(got));
  }
  return all;
}

ssize_t ClientSocket::Receive(std::span<const iovec> pieces) {
  if (tls_ == nullptr) return ::readv(fd_.get(), pieces.data(), static_cast<int>(pieces.size()));
  ssize_t all = 0;
  for (const iovec& piece : pieces) {
    if (piece.iov_len == 0) continue;
    const ssize_t got = Receive(std::span(static_cast<char*>(piece.iov_base), piece.iov_len));
    if (got <= 0) return all > 0 ? all : got;
    all += got;
    if (static_cast<size_t>(got) < piece.iov_len) break;
  }
  return all;
}

ssize_t ClientSocket::Send(std::span<const iovec> pieces) {
  if (tls_ != nullptr) return SendEncrypted(pieces);
  msghdr message{};
  message.msg_iov = const_cast<iovec*>(pieces.data());  // sendmsg() only reads them
  message.msg_iovlen = pieces.size();
  return ::sendmsg(fd_.get(), &message, MSG_NOSIGNAL | MSG_DONTWAIT);
}

// OpenSSL requires that unsent bytes are offered again, with at least as many bytes. So each write depends on
// the bytes and not on how they are cut: it offers a full record, or all bytes.
ssize_t ClientSocket::SendEncrypted(std::span<const iovec> pieces) {
  char gathered[kRecordBytes];
  ssize_t all = 0;
  size_t offset = 0;  // bytes of the first piece that were sent
  while (true) {
    while (!pieces.empty() && offset >= pieces.front().iov_len) {
      offset -= pieces.front().iov_len;
      pieces = pieces.subspan(1);
    }
    if (pieces.empty()) return all;
    const iovec& first = pieces.front();
    std::string_view bytes(static_cast<const char*>(first.iov_base) + offset, first.iov_len - offset);
    if (bytes.size() < kRecordBytes && pieces.size() > 1) bytes = Gather(pieces, offset, gathered);
    const ssize_t sent = tls_->Write(bytes.substr(0, kRecordBytes));
    if (sent < 0) return all > 0 ? all : sent;
    all += sent;
    offset += static_cast<size_t>(sent);
  }
}

bool ClientSocket::EndSending() {
  if (tls_ != nullptr && !tls_->End()) return false;
  ::shutdown(fd_.get(), SHUT_WR);
  return true;
}

ClientSocket::Sight ClientSocket::Look() const {
  pollfd look{fd_.get(), POLLIN | POLLRDHUP, 0};
  if (::poll(&look, 1, 0) <= 0) return Sight::kNothing;
  return (look.revents & (POLLRDHUP | POLLHUP | POLLERR)) != 0 ? Sight::kGone : Sight::kInput;
}

}  // namespace braid
