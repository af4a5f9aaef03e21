// ClientSocket: the connected socket of a client, with or without TLS.
//
//   BRAID_ASSIGN_OR_RETURN(ClientSocket client, ClientSocket::Create(std::move(fd), tls_source));
//   client.Receive(...), client.Send(...)
//
// One thread may receive while another sends. Without TLS each call is one system call and takes no lock.
#pragma once

#include <sys/types.h>

#include <memory>
#include <span>
#include <string_view>

#include "base/status.h"
#include "base/unique_fd.h"
#include "protocols/net/tls.h"

struct iovec;

namespace braid {

class ClientSocket {
 public:
  // Takes over a non-blocking socket. `tls`: null for a socket without TLS. Errors: RESOURCE_EXHAUSTED.
  static Result<ClientSocket> Create(UniqueFd fd, const std::shared_ptr<TlsSource>& tls);

  // Like recv() and readv() that do not block. Return the number of bytes, 0 at the end, or -1 with errno.
  // With TLS, bytes may remain that no event of the descriptor reports: see has_pending().
  ssize_t Receive(std::span<char> to);
  ssize_t Receive(std::span<const iovec> pieces);

  // Like sendmsg() that neither blocks nor raises SIGPIPE. With TLS, small pieces leave together in records
  // of up to 16 KiB. Bytes that a call did not take may be encrypted already. So the next call begins with
  // the same bytes and offers at least as many; it may cut them into other pieces.
  ssize_t Send(std::span<const iovec> pieces);

  // Ends this side of the connection, so that the client can tell the end from a broken connection. Returns
  // false if the socket must become writable first; then call it again.
  bool EndSending();

  // The state of the client as far as it is visible without reading. kGone: the client has ended its side,
  // even if unread input is left.
  enum class Sight : unsigned char { kNothing, kInput, kGone };
  Sight Look() const;

  int fd() const { return fd_.get(); }
  bool encrypted() const { return tls_ != nullptr; }
  bool handshake_done() const { return tls_ == nullptr || tls_->handshake_done(); }
  // Whether Receive() has bytes to return that were already read from the socket. They may be too few for it
  // to return any.
  bool has_pending() const { return tls_ != nullptr && tls_->has_pending(); }
  // Whether the last Receive() returned EAGAIN and must wait until the socket is writable.
  bool receive_needs_write() const { return tls_ != nullptr && tls_->read_needs_write(); }

  // Returns the identity in the client's certificate, which TLS has verified. It is the first URI of its
  // subject alternative names (such as a SPIFFE id), or else the common name of its subject. Empty without a
  // certificate, and for a text that is not UTF-8 or has NUL bytes. Constant once bytes were received.
  std::string_view certificate_identity() const {
    return tls_ == nullptr ? std::string_view() : tls_->certificate_identity();
  }

  // Closes the descriptor. REQUIRES: no other thread uses it.
  void Close() { fd_.Reset(); }

 private:
  ClientSocket(UniqueFd fd, std::unique_ptr<TlsStream> tls) : fd_(std::move(fd)), tls_(std::move(tls)) {}
  ssize_t SendEncrypted(std::span<const iovec> pieces);

  UniqueFd fd_;
  std::unique_ptr<TlsStream> tls_;  // null without TLS
};

}  // namespace braid
