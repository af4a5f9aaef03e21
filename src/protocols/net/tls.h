// TLS over sockets that do not block, by OpenSSL.
//
//   BRAID_ASSIGN_OR_RETURN(auto context, TlsContext::Create({.certificate_file = ..., .key_file = ...}, "h2"));
//   BRAID_ASSIGN_OR_RETURN(auto stream, context->Accept(fd));
//   stream->Read(...), stream->Write(...)
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "base/status.h"

struct ssl_ctx_st;
struct ssl_st;

namespace braid {

// One client's side of it. One thread at a time.
class TlsStream {
 public:
  explicit TlsStream(ssl_st* ssl) : ssl_(ssl) {}
  ~TlsStream();
  TlsStream(const TlsStream&) = delete;
  TlsStream& operator=(const TlsStream&) = delete;

  // As recv() and send(): how many bytes, 0 at the end, or -1 with errno; EAGAIN when the socket has to be
  // readable, or writable, first. The handshake is part of the first reads. Any other error is the end of the
  // connection (EPROTO).
  ssize_t Read(std::span<char> to);
  ssize_t Write(std::string_view bytes);

 private:
  ssize_t Failed(int result);

  ssl_st* const ssl_;
};

// A server's key and certificates. Any thread.
class TlsContext {
 public:
  struct Options {
    std::string certificate_file;  // PEM; with the chain behind it
    std::string key_file;
    std::string root_file;            // who signs the certificates of clients; empty: none
    bool client_certificate = false;  // clients must show one
  };

  // `protocol`: what is spoken over it, as ALPN names it. Errors: INVALID_ARGUMENT for files that cannot be
  // read, or are not what they should be.
  static Result<std::shared_ptr<const TlsContext>> Create(const Options& options, std::string protocol);
  ~TlsContext();
  TlsContext(const TlsContext&) = delete;
  TlsContext& operator=(const TlsContext&) = delete;

  // For a socket that a client has connected to; it stays the caller's. Errors: RESOURCE_EXHAUSTED.
  Result<std::unique_ptr<TlsStream>> Accept(int fd) const;

 private:
  TlsContext(ssl_ctx_st* context, std::string protocol);

  ssl_ctx_st* const context_;
  const std::string protocol_;
};

}  // namespace braid
