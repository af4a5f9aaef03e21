// TLS over sockets that do not block, by OpenSSL.
//
//   BRAID_ASSIGN_OR_RETURN(auto source, TlsSource::Create({.certificate_file = ..., .key_file = ...}, "h2"));
//   BRAID_ASSIGN_OR_RETURN(auto stream, source->Accept(fd));
//   stream->Read(...), stream->Write(...)
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "base/mutex.h"
#include "base/status.h"

struct ssl_ctx_st;
struct ssl_st;

namespace braid {

// How a port speaks TLS. Files are PEM.
struct TlsOptions {
  bool use = false;
  bool mutual = false;           // clients must show a certificate
  std::string certificate_file;  // with the chain behind it
  std::string key_file;
  // Who signs the certificates of clients, which are asked for one. One that is shown must be signed by these;
  // without `mutual` a client may have none. Empty: clients are not asked.
  std::string root_file;
};

class TlsSource;

// One client's side of it. One thread reads, another may write meanwhile.
class TlsStream {
 public:
  TlsStream(std::shared_ptr<const TlsSource> source, ssl_st* ssl) : source_(std::move(source)), ssl_(ssl) {}
  ~TlsStream();
  TlsStream(const TlsStream&) = delete;
  TlsStream& operator=(const TlsStream&) = delete;

  // As recv() and send(): how many bytes of one record, 0 at the end, or -1 with errno; EAGAIN when the socket
  // has to be readable, or writable, first. The handshake is part of the first reads and writes. Any other
  // error is the end of the connection (EPROTO). After a write that was EAGAIN, the next one offers the same
  // bytes again, which may lie elsewhere, and no fewer: they are encrypted already.
  ssize_t Read(std::span<char> to);
  ssize_t Write(std::string_view bytes);

  // Tells the client that nothing follows. False when the socket has to be writable first, for another try.
  bool End();

  // Bytes were read from the socket that Read() has not given away, so that no wait for input tells of them.
  bool has_pending() const;
  // The last read was EAGAIN because something of TLS's own has to be written first.
  bool read_needs_write() const;
  bool handshake_done() const;
  // Whom the client's certificate names: see ClientSocket. Set with the first read that brings bytes, and
  // constant from then on.
  std::string_view certificate_identity() const { return identity_; }

 private:
  ssize_t Done(int result) BRAID_REQUIRES(mutex_);

  const std::shared_ptr<const TlsSource> source_;  // shared: a handshake looks into it
  mutable Mutex mutex_;
  ssl_st* const ssl_;  // guarded by mutex_
  bool read_needs_write_ BRAID_GUARDED_BY(mutex_) = false;
  bool handshake_done_ BRAID_GUARDED_BY(mutex_) = false;
  std::string identity_;
};

// A server's key and certificates, which can change while it runs. Any thread.
class TlsSource : public std::enable_shared_from_this<TlsSource> {
 public:
  // `protocol`: what is spoken over it, as ALPN names it; a client that offers others alone is refused.
  // Errors: INVALID_ARGUMENT for files that cannot be read, or are not what they should be.
  static Result<std::shared_ptr<TlsSource>> Create(const TlsOptions& options, std::string protocol);

  // For a socket that a client has connected to; it stays the caller's. Errors: RESOURCE_EXHAUSTED.
  Result<std::unique_ptr<TlsStream>> Accept(int fd) const;

  // Reads the files again, for connections that are accepted from now on. Errors: those of Create(); what was
  // read before is then still used.
  Status Reload();

 private:
  using Context = std::shared_ptr<ssl_ctx_st>;  // shared with OpenSSL's streams
  TlsSource(TlsOptions options, std::string protocol);
  Result<Context> Read() const;

  const TlsOptions options_;
  const std::string protocol_;
  mutable Mutex mutex_;
  Context context_ BRAID_GUARDED_BY(mutex_);
};

}  // namespace braid
