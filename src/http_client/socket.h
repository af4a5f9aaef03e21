// Socket: a client's connection over TCP or a Unix socket, with or without TLS.
#pragma once

#include <sys/uio.h>

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "base/status.h"
#include "base/unique_fd.h"

struct ssl_ctx_st;
struct ssl_st;

namespace braid::client {

// The certificates to use, as PEM files.
struct TlsOptions {
  bool enabled = false;
  std::string ca_file;    // "": the system's
  std::string cert_file;  // the client's; "": none
  std::string key_file;
  bool verify_peer = true;
  bool verify_host = true;
};

// The address of a server.
struct Address {
  // The path of a Unix socket, without a port, if it begins with '/'.
  std::string host;
  std::string port;
  bool is_unix() const { return host.starts_with('/'); }
  // Returns "host:port".
  std::string authority() const;
  // Returns the same for texts: "host:port" or "unix:/path".
  std::string name() const;
  // Returns the value of a Host header: "host:port", or "localhost" for a Unix socket.
  std::string http_host() const;
};

// Parses "unix:PATH", or else as ParseAddress().
Result<Address> ParseServerAddress(std::string_view text, std::string_view protocol_port);

// Parses "host:port", "[::1]:port", or "host" with the default `protocol_port`. A leading "http://" or
// "https://" is removed.
Result<Address> ParseAddress(std::string_view text, std::string_view protocol_port);

// Opens connections. Immutable and thread-safe.
class Dialer {
 public:
  // Errors: a TLS file that cannot be used.
  static Result<std::shared_ptr<const Dialer>> Make(Address address, const TlsOptions& tls);
  ~Dialer();
  Dialer(const Dialer&) = delete;
  Dialer& operator=(const Dialer&) = delete;

  const Address& address() const { return address_; }
  bool tls() const { return tls_.enabled; }

 private:
  friend class Socket;
  Dialer(Address address, TlsOptions tls) : address_(std::move(address)), tls_(std::move(tls)) {}

  const Address address_;
  const TlsOptions tls_;
  ssl_ctx_st* context_ = nullptr;
};

// Waits for poll()'s `events` until a steady time. Returns false on timeout.
bool WaitFor(int fd, int16_t events, int64_t deadline_ns);

// One connection. Not thread-safe.
class Socket {
 public:
  // Connects within `timeout_s`. With `http2`, the TLS handshake requests HTTP/2. Errors: UNAVAILABLE, whose
  // text does not name the address.
  static Result<std::unique_ptr<Socket>> Dial(const Dialer& dialer, bool http2, double timeout_s);
  ~Socket();
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;

  int fd() const { return fd_.get(); }

  // Writes as many bytes as possible without blocking. Returns their number; 0 if the buffer is full. Errors:
  // the connection is over.
  Result<size_t> Write(std::span<const iovec> pieces);

  // Reads the available bytes, at most `size`. Returns 0 if there are none. With `wait`, waits up to 100 ms
  // for bytes. Errors: the connection is over, or the server has closed it.
  Result<size_t> Read(char* to, size_t size, bool wait);

  // Whether bytes are buffered here that poll() on the descriptor does not report.
  bool buffered() const;

 private:
  explicit Socket(UniqueFd fd) : fd_(std::move(fd)) {}
  Status ShakeHands(const Dialer& dialer, bool http2, int64_t deadline_ns);

  UniqueFd fd_;
  ssl_st* tls_ = nullptr;
};

}  // namespace braid::client
