#include "http_client/socket.h"

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/clock.h"
#include "base/unix_address.h"

namespace braid::client {
namespace {

// The longest wait of a read, so that its thread notices a shutdown.
constexpr int kReadWaitMs = 100;

// The host name of a server at a Unix socket, as in gRPC.
constexpr char kNameOfUnix[] = "localhost";

std::string TlsReason() {
  const unsigned long error = ERR_get_error();
  ERR_clear_error();
  const char* reason = error == 0 ? nullptr : ERR_reason_error_string(error);
  return reason == nullptr ? "the connection was closed" : reason;
}

Result<UniqueFd> ConnectTo(const addrinfo& to, int64_t deadline_ns) {
  UniqueFd fd(::socket(to.ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd.valid()) return ErrnoError("socket", errno);
  if (connect(fd.get(), to.ai_addr, to.ai_addrlen) != 0) {
    if (errno != EINPROGRESS) return UnavailableError(std::strerror(errno));
    if (!WaitFor(fd.get(), POLLOUT, deadline_ns)) return UnavailableError("connection timed out");
    int error = 0;
    socklen_t size = sizeof error;
    getsockopt(fd.get(), SOL_SOCKET, SO_ERROR, &error, &size);
    if (error != 0) return UnavailableError(std::strerror(error));
  }
  const int one = 1;
  setsockopt(fd.get(), IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
  return fd;
}

Result<UniqueFd> ConnectToPath(const std::string& path) {
  if (path.size() >= sizeof sockaddr_un::sun_path) return UnavailableError("the socket path is too long");
  const sockaddr_un to = UnixName(path);
  UniqueFd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd.valid()) return ErrnoError("socket", errno);
  // Such a connection succeeds or fails at once.
  if (connect(fd.get(), reinterpret_cast<const sockaddr*>(&to), sizeof to) == 0) return fd;
  return UnavailableError(std::strerror(errno));
}

}  // namespace

bool WaitFor(int fd, int16_t events, int64_t deadline_ns) {
  while (true) {
    const int64_t left_ms = (deadline_ns - SteadyNowNs()) / 1'000'000;
    if (left_ms <= 0) return false;
    pollfd one{fd, events, 0};
    const int ready = poll(&one, 1, static_cast<int>(std::min<int64_t>(left_ms, 1000)));
    if (ready > 0) return true;
    if (ready < 0 && errno != EINTR) return false;
  }
}

std::string Address::name() const { return is_unix() ? UnixAddress(host) : authority(); }

std::string Address::http_host() const { return is_unix() ? kNameOfUnix : authority(); }

std::string Address::authority() const {
  return host.find(':') == std::string::npos ? host + ":" + port : "[" + host + "]:" + port;
}

Result<Address> ParseServerAddress(std::string_view text, std::string_view protocol_port) {
  if (!IsUnixAddress(text)) return ParseAddress(text, protocol_port);
  BRAID_ASSIGN_OR_RETURN(std::string path, UnixPath(text));
  return Address{std::move(path), ""};
}

Result<Address> ParseAddress(std::string_view text, std::string_view protocol_port) {
  const std::string_view whole = text;
  for (const std::string_view scheme : {"http://", "https://"}) {
    if (text.starts_with(scheme)) text.remove_prefix(scheme.size());
  }
  if (text.ends_with('/')) text.remove_suffix(1);
  Address address;
  std::string_view port;
  if (text.starts_with('[')) {
    const size_t end = text.find(']');
    if (end == std::string_view::npos)
      return InvalidArgumentError("'" + std::string(whole) + "' must have the form HOST:PORT");
    address.host = text.substr(1, end - 1);
    port = text.substr(end + 1);
    if (port.starts_with(':')) port.remove_prefix(1);
  } else {
    const size_t colon = text.rfind(':');
    address.host = text.substr(0, colon);
    if (colon != std::string_view::npos) port = text.substr(colon + 1);
  }
  address.port = port.empty() ? protocol_port : port;
  const bool number = std::ranges::all_of(address.port, [](char c) { return c >= '0' && c <= '9'; });
  if (address.host.empty() || !number || address.port.size() > 5) {
    return InvalidArgumentError("'" + std::string(whole) + "' must have the form HOST:PORT");
  }
  return address;
}

Result<std::shared_ptr<const Dialer>> Dialer::Make(Address address, const TlsOptions& tls) {
  std::shared_ptr<Dialer> dialer(new Dialer(std::move(address), tls));
  if (!tls.enabled) return std::shared_ptr<const Dialer>(dialer);
  SSL_CTX* context = SSL_CTX_new(TLS_client_method());
  if (context == nullptr) return InternalError("TLS: " + TlsReason());
  dialer->context_ = context;
  SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION);
  SSL_CTX_set_mode(context, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
  SSL_CTX_set_options(context, SSL_OP_IGNORE_UNEXPECTED_EOF);
  const auto refuse = [](const std::string& file) {
    return InvalidArgumentError("cannot use " + file + " for TLS: " + TlsReason());
  };
  if (tls.ca_file.empty()) {
    SSL_CTX_set_default_verify_paths(context);
  } else if (SSL_CTX_load_verify_locations(context, tls.ca_file.c_str(), nullptr) != 1) {
    return refuse(tls.ca_file);
  }
  if (!tls.cert_file.empty() && SSL_CTX_use_certificate_chain_file(context, tls.cert_file.c_str()) != 1) {
    return refuse(tls.cert_file);
  }
  if (!tls.key_file.empty() &&
      SSL_CTX_use_PrivateKey_file(context, tls.key_file.c_str(), SSL_FILETYPE_PEM) != 1) {
    return refuse(tls.key_file);
  }
  SSL_CTX_set_verify(context, tls.verify_peer ? SSL_VERIFY_PEER : SSL_VERIFY_NONE, nullptr);
  return std::shared_ptr<const Dialer>(dialer);
}

Dialer::~Dialer() { SSL_CTX_free(context_); }

Result<std::unique_ptr<Socket>> Socket::Dial(const Dialer& dialer, bool http2, double timeout_s) {
  const int64_t deadline_ns = SteadyNowNs() + static_cast<int64_t>(timeout_s * 1e9);
  if (dialer.address().is_unix()) {
    BRAID_ASSIGN_OR_RETURN(UniqueFd fd, ConnectToPath(dialer.address().host));
    std::unique_ptr<Socket> socket(new Socket(std::move(fd)));
    if (dialer.tls()) BRAID_RETURN_IF_ERROR(socket->ShakeHands(dialer, http2, deadline_ns));
    return socket;
  }
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (const int error =
          getaddrinfo(dialer.address().host.c_str(), dialer.address().port.c_str(), &hints, &found);
      error != 0) {
    return UnavailableError(gai_strerror(error));
  }
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> addresses(found, &freeaddrinfo);
  Status last;
  for (const addrinfo* to = addresses.get(); to != nullptr; to = to->ai_next) {
    Result<UniqueFd> fd = ConnectTo(*to, deadline_ns);
    if (!fd.ok()) {
      last = fd.status();
      continue;
    }
    std::unique_ptr<Socket> socket(new Socket(std::move(fd).value()));
    if (dialer.tls()) BRAID_RETURN_IF_ERROR(socket->ShakeHands(dialer, http2, deadline_ns));
    return socket;
  }
  return last;
}

Socket::~Socket() { SSL_free(tls_); }

Status Socket::ShakeHands(const Dialer& dialer, bool http2, int64_t deadline_ns) {
  const std::string host = dialer.address_.is_unix() ? kNameOfUnix : dialer.address_.host;
  tls_ = SSL_new(dialer.context_);
  if (tls_ == nullptr) return InternalError("TLS: " + TlsReason());
  SSL_set_fd(tls_, fd_.get());
  SSL_set_tlsext_host_name(tls_, host.c_str());
  if (dialer.tls_.verify_peer && dialer.tls_.verify_host) {
    X509_VERIFY_PARAM* wanted = SSL_get0_param(tls_);
    if (X509_VERIFY_PARAM_set1_ip_asc(wanted, host.c_str()) != 1) SSL_set1_host(tls_, host.c_str());
    ERR_clear_error();
  }
  if (http2) {
    constexpr unsigned char kProtocols[] = {2, 'h', '2'};
    SSL_set_alpn_protos(tls_, kProtocols, sizeof kProtocols);
  }
  while (true) {
    const int done = SSL_connect(tls_);
    if (done == 1) return OkStatus();
    const int error = SSL_get_error(tls_, done);
    const bool reads = error == SSL_ERROR_WANT_READ;
    if (!reads && error != SSL_ERROR_WANT_WRITE) {
      const long verified = SSL_get_verify_result(tls_);
      const std::string reason =
          verified == X509_V_OK ? TlsReason() : X509_verify_cert_error_string(verified);
      return UnavailableError("TLS: " + reason);
    }
    if (!WaitFor(fd_.get(), reads ? POLLIN : POLLOUT, deadline_ns)) {
      return UnavailableError("TLS handshake timed out");
    }
  }
}

Result<size_t> Socket::Write(std::span<const iovec> pieces) {
  if (tls_ != nullptr) {
    size_t all = 0;
    for (const iovec& piece : pieces) {
      size_t written = 0;
      while (written < piece.iov_len) {
        const int done = SSL_write(tls_, static_cast<const char*>(piece.iov_base) + written,
                                   static_cast<int>(std::min<size_t>(piece.iov_len - written, 1 << 24)));
        if (done <= 0) {
          const int error = SSL_get_error(tls_, done);
          if (error == SSL_ERROR_WANT_WRITE || error == SSL_ERROR_WANT_READ) return all;
          return UnavailableError("the connection broke: " + TlsReason());
        }
        written += static_cast<size_t>(done);
        all += static_cast<size_t>(done);
      }
    }
    return all;
  }
  msghdr message{};
  message.msg_iov = const_cast<iovec*>(pieces.data());
  message.msg_iovlen = pieces.size();
  while (true) {
    const ssize_t written = sendmsg(fd_.get(), &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (written >= 0) return static_cast<size_t>(written);
    if (errno == EAGAIN) return size_t{0};
    if (errno != EINTR) return UnavailableError(std::string("the connection broke: ") + std::strerror(errno));
  }
}

Result<size_t> Socket::Read(char* to, size_t size, bool wait) {
  if (tls_ != nullptr) {
    if (wait && !buffered()) WaitFor(fd_.get(), POLLIN, SteadyNowNs() + int64_t{kReadWaitMs} * 1'000'000);
    const int done = SSL_read(tls_, to, static_cast<int>(std::min<size_t>(size, 1 << 24)));
    if (done > 0) return static_cast<size_t>(done);
    const int error = SSL_get_error(tls_, done);
    if (error == SSL_ERROR_WANT_READ || error == SSL_ERROR_WANT_WRITE) return size_t{0};
    if (error == SSL_ERROR_ZERO_RETURN) return UnavailableError("the server closed the connection");
    return UnavailableError("the connection broke: " + TlsReason());
  }
  while (true) {
    const ssize_t received = recv(fd_.get(), to, size, MSG_DONTWAIT);
    if (received > 0) return static_cast<size_t>(received);
    if (received == 0) return UnavailableError("the server closed the connection");
    if (errno == EAGAIN) {
      if (!wait) return size_t{0};
      pollfd one{fd_.get(), POLLIN, 0};
      if (poll(&one, 1, kReadWaitMs) <= 0) return size_t{0};
      wait = false;
      continue;
    }
    if (errno != EINTR) return UnavailableError(std::string("the connection broke: ") + std::strerror(errno));
  }
}

bool Socket::buffered() const { return tls_ != nullptr && SSL_pending(tls_) > 0; }

}  // namespace braid::client
