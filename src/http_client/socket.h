// A client's TCP connection, with TLS or without.
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

// What is used of certificates, as files in PEM.
struct TlsOptions {
  bool enabled = false;
  std::string ca_file;    // "": the system's
  std::string cert_file;  // of the client; "": none
  std::string key_file;
  bool verify_peer = true;
  bool verify_host = true;
};

// Where a server is.
struct Address {
  // Beginning with '/': the path of a Unix socket, which has no port.
  std::string host;
  std::string port;
  // "host:port", as a server knows itself.
  std::string authority() const;
};

// Reads "host:port", "[::1]:port", or "host" with a port of `protocol_port`; a leading "http://" or "https://" is taken off.
Result<Address> ParseAddress(std::string_view text, std::string_view protocol_port);

// Makes connections. Immutable: any thread.
class Dialer {
 public:
  // Errors: a file of TLS that cannot be used.
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

// Waits for poll()'s `events` until a steady time; false when it is over.
bool WaitFor(int fd, int16_t events, int64_t deadline_ns);

// One connection. One thread.
class Socket {
 public:
  // Connects, within `timeout_s`. `http2`: asks for it in the handshake of TLS. Errors: UNAVAILABLE, which do not say where.
  static Result<std::unique_ptr<Socket>> Dial(const Dialer& dialer, bool http2, double timeout_s);
  ~Socket();
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;

  int fd() const { return fd_.get(); }

  // Writes what can be written at once; the number of bytes, 0 where there is no room now. Errors: the connection is over.
  Result<size_t> Write(std::span<const iovec> pieces);

  // Reads what is there, at most `size` bytes; 0 where there is nothing now. With `wait` it waits for something, for 100 ms at most.
  // Errors: the connection is over, or the server has closed it.
  Result<size_t> Read(char* to, size_t size, bool wait);

  // Bytes were read from the system and not yet by Read(): the descriptor does not tell of them.
  bool buffered() const;

 private:
  explicit Socket(UniqueFd fd) : fd_(std::move(fd)) {}
  Status ShakeHands(const Dialer& dialer, bool http2, int64_t deadline_ns);

  UniqueFd fd_;
  ssl_st* tls_ = nullptr;
};

}  // namespace braid::client
