// ClientSocket: the socket of a client that has connected, with TLS or without.
//
//   BRAID_ASSIGN_OR_RETURN(ClientSocket client, ClientSocket::Create(std::move(fd), tls_source));
//   client.Receive(...), client.Send(...)
//
// With TLS one thread may receive while another sends. Without, each call is one system call and no lock.
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
  // Takes over a socket that does not block. `tls`: null without. Errors: RESOURCE_EXHAUSTED.
  static Result<ClientSocket> Create(UniqueFd fd, const std::shared_ptr<TlsSource>& tls);

  // As recv() and readv() that do not block: bytes, 0 at the end, or -1 with errno. With TLS, bytes may be left
  // that no wait for the descriptor tells of: has_pending().
  ssize_t Receive(std::span<char> to);
  ssize_t Receive(std::span<const iovec> pieces);

  // As sendmsg() that neither blocks nor raises SIGPIPE. With TLS, small pieces leave together in records of up
  // to 16 KiB. What a call did not take may be encrypted already: the next call begins with the same bytes, cut
  // into pieces in any way, and offers as many or more.
  ssize_t Send(std::span<const iovec> pieces);

  // Ends our side: what is sent has an end that the client can tell from a cut. False when the socket has to be
  // writable first; to be called again then.
  bool EndSending();

  // What can be seen of the client without reading. It has gone when its side has ended, read or not.
  enum class Sight : unsigned char { kNothing, kInput, kGone };
  Sight Look() const;

  int fd() const { return fd_.get(); }
  bool encrypted() const { return tls_ != nullptr; }
  // True without TLS.
  bool handshake_done() const { return tls_ == nullptr || tls_->handshake_done(); }
  // Something has come that Receive() has not given away, and that may be too little to.
  bool has_pending() const { return tls_ != nullptr && tls_->has_pending(); }
  // The last Receive() was EAGAIN, and goes on when the socket is writable.
  bool receive_needs_write() const { return tls_ != nullptr && tls_->read_needs_write(); }

  // Whom a client's certificate, which was verified, names: the first URI of its subject alternative names
  // (SPIFFE ids are such), without any the common name of its subject. Empty without a certificate, and where
  // that text is not UTF-8 or has NUL bytes. Constant once something was received.
  std::string_view certificate_identity() const {
    return tls_ == nullptr ? std::string_view() : tls_->certificate_identity();
  }

  // Closes the descriptor. REQUIRES: no other thread uses it.
  void Close() { fd_.Reset(); }

 private:
  ClientSocket(UniqueFd fd, std::unique_ptr<TlsStream> tls) : fd_(std::move(fd)), tls_(std::move(tls)) {}
  ssize_t SendEncrypted(std::span<const iovec> pieces);

  UniqueFd fd_;
  std::unique_ptr<TlsStream> tls_;  // null: none
};

}  // namespace braid
