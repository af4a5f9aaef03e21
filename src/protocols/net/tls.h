// TLS over non-blocking sockets, by OpenSSL.
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

// The TLS settings of a port. Files are PEM.
struct TlsOptions {
  bool use = false;
  bool mutual = false;           // clients must show a certificate
  std::string certificate_file;  // followed by its chain
  std::string key_file;
  // The authorities that sign clients' certificates. With a file, clients are asked for a certificate, and
  // one that is shown must be signed by these authorities. Without `mutual` a client need not show one.
  // Empty: clients are not asked.
  std::string root_file;
};

class TlsSource;

// The server's side of one TLS connection. One thread may read while another writes.
class TlsStream {
 public:
  TlsStream(std::shared_ptr<const TlsSource> source, ssl_st* ssl) : source_(std::move(source)), ssl_(ssl) {}
  ~TlsStream();
  TlsStream(const TlsStream&) = delete;
  TlsStream& operator=(const TlsStream&) = delete;

  // Like recv() and send(). Return the number of bytes of one record, 0 at the end, or -1 with errno. EAGAIN:
  // the socket must become readable or writable first. Any other error ends the connection (EPROTO). The
  // first reads and writes do the handshake.
  // After a write that returned EAGAIN, the next one offers the same bytes again, and at least as many,
  // because they are encrypted already. They may lie elsewhere.
  ssize_t Read(std::span<char> to);
  ssize_t Write(std::string_view bytes);

  // Tells the client that no more data follows. Returns false if the socket must become writable first; then
  // call it again.
  bool End();

  // Whether bytes were read from the socket that Read() has not returned. No event reports them.
  bool has_pending() const;
  // Whether the last read returned EAGAIN because TLS must write first.
  bool read_needs_write() const;
  bool handshake_done() const;
  // The identity in the client's certificate: see ClientSocket. Set by the first read that returns bytes, and
  // constant from then on.
  std::string_view certificate_identity() const { return identity_; }

 private:
  ssize_t Done(int result) BRAID_REQUIRES(mutex_);

  const std::shared_ptr<const TlsSource> source_;  // shared because a handshake uses it
  mutable Mutex mutex_;
  ssl_st* const ssl_;  // guarded by mutex_
  bool read_needs_write_ BRAID_GUARDED_BY(mutex_) = false;
  bool handshake_done_ BRAID_GUARDED_BY(mutex_) = false;
  std::string identity_;
};

// A server's key and certificates, which can be reloaded while it runs. Any thread.
class TlsSource : public std::enable_shared_from_this<TlsSource> {
 public:
  // `protocol`: the ALPN name of the protocol over TLS. A client that offers only other protocols is refused.
  // Errors: INVALID_ARGUMENT for files that cannot be read or have invalid contents.
  static Result<std::shared_ptr<TlsSource>> Create(const TlsOptions& options, std::string protocol);

  // Starts TLS on an accepted socket, which stays the caller's. Errors: RESOURCE_EXHAUSTED.
  Result<std::unique_ptr<TlsStream>> Accept(int fd) const;

  // Reads the files again, for future connections. Errors: those of Create(); then the previous certificates
  // stay in use.
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
