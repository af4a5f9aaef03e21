#include "protocols/net/listening_socket.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <utility>

#include "base/guard.h"
#include "base/unix_address.h"

namespace braid {
namespace {

// Limit on the ports that are tried at several addresses.
constexpr int kTriesOfPorts = 16;

struct AddressInfoDeleter {
  void operator()(addrinfo* info) const { ::freeaddrinfo(info); }
};

using AddressInfo = std::unique_ptr<addrinfo, AddressInfoDeleter>;

// The caller listens on the first result.
Result<AddressInfo> Resolve(const std::string& address, uint16_t port) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE;
  addrinfo* found = nullptr;
  const int failure = ::getaddrinfo(address.c_str(), std::to_string(port).c_str(), &hints, &found);
  if (failure == 0) return AddressInfo(found);
  return InvalidArgumentError("cannot resolve the address '" + address + "': " + ::gai_strerror(failure));
}

struct ListenOptions {
  uint16_t port;
  bool reuse_port;
  bool only_v6;  // of "::"
};

Result<UniqueFd> ListenOnOne(const std::string& address, const ListenOptions& options) {
  const std::string where = address + ":" + std::to_string(options.port);
  BRAID_ASSIGN_OR_RETURN(const AddressInfo info, Resolve(address, options.port));
  UniqueFd fd(::socket(info->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd.valid()) return ErrnoError("cannot create a socket for " + where, errno);
  const int on = 1;
  ::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  if (options.only_v6 && info->ai_family == AF_INET6)
    ::setsockopt(fd.get(), IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof(on));
  if (options.reuse_port && ::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEPORT, &on, sizeof(on)) != 0) {
    return ErrnoError("cannot share the port of " + where, errno);
  }
  if (::bind(fd.get(), info->ai_addr, info->ai_addrlen) != 0 || ::listen(fd.get(), SOMAXCONN) != 0) {
    if (errno == EADDRINUSE) return UnavailableError("Socket '" + where + "' already in use");
    return ErrnoError("cannot listen on " + where, errno);
  }
  return fd;
}

bool IsLoopbackAddress(const std::string& address) {
  if (IsUnixAddress(address)) return true;
  const auto info = Resolve(address, 0);
  if (!info.ok()) return false;
  if ((*info)->ai_family == AF_INET) {
    sockaddr_in v4{};
    std::memcpy(&v4, (*info)->ai_addr, sizeof(v4));
    return ntohl(v4.sin_addr.s_addr) >> 24 == IN_LOOPBACKNET;
  }
  sockaddr_in6 v6{};
  std::memcpy(&v6, (*info)->ai_addr, std::min<size_t>(sizeof(v6), (*info)->ai_addrlen));
  return (*info)->ai_family == AF_INET6 && IN6_IS_ADDR_LOOPBACK(&v6.sin6_addr);
}

bool ListsV4(const std::string& addresses) {
  return std::ranges::any_of(ListedAddresses(addresses), [](const std::string& address) {
    in_addr parsed{};
    return ::inet_pton(AF_INET, address.c_str(), &parsed) == 1;
  });
}

// Returns the port of a socket, or 0 if it has none.
uint16_t PortOf(const UniqueFd& fd) {
  sockaddr_storage address{};
  socklen_t size = sizeof(address);
  if (::getsockname(fd.get(), reinterpret_cast<sockaddr*>(&address), &size) != 0) return 0;
  if (address.ss_family == AF_INET6) return ntohs(reinterpret_cast<const sockaddr_in6&>(address).sin6_port);
  if (address.ss_family == AF_INET) return ntohs(reinterpret_cast<const sockaddr_in&>(address).sin_port);
  return 0;
}

Result<std::vector<ListeningSocket>> ListenOnAll(const std::vector<std::string>& addresses,
                                                 ListenOptions options, uint32_t mode) {
  std::vector<ListeningSocket> sockets;
  for (const std::string& address : addresses) {
    if (IsUnixAddress(address)) {
      BRAID_ASSIGN_OR_RETURN(const std::string path, UnixPath(address));
      BRAID_ASSIGN_OR_RETURN(UnixListener listener, ListenAtPath(path, mode));
      sockets.push_back({std::move(listener.fd), std::move(listener.file)});
      continue;
    }
    BRAID_ASSIGN_OR_RETURN(UniqueFd fd, ListenOnOne(address, options));
    if (options.port == 0) options.port = PortOf(fd);
    sockets.push_back({std::move(fd)});
  }
  return sockets;
}

// Returns the user at the other end of a Unix socket.
uid_t UserOf(const UniqueFd& fd) {
  ucred peer{};
  socklen_t size = sizeof(peer);
  ::getsockopt(fd.get(), SOL_SOCKET, SO_PEERCRED, &peer, &size);
  return peer.uid;
}

}  // namespace

std::vector<std::string> ListedAddresses(const std::string& addresses) {
  std::vector<std::string> parts;
  for (size_t begin = 0; begin <= addresses.size();) {
    const size_t end = std::min(addresses.find(',', begin), addresses.size());
    const size_t first = std::min(addresses.find_first_not_of(' ', begin), end);
    const size_t last = first == end ? end : addresses.find_last_not_of(' ', end - 1) + 1;
    parts.push_back(addresses.substr(first, last - first));
    begin = end + 1;
  }
  return parts;
}

Result<std::vector<ListeningSocket>> ListenOn(const std::string& addresses, uint16_t port, bool reuse_port,
                                              uint32_t mode) {
  // The port that the system chooses for one address may be taken at another.
  for (int tries = port == 0 ? kTriesOfPorts : 1;; --tries) {
    auto sockets = ListenOnAll(ListedAddresses(addresses), {port, reuse_port, ListsV4(addresses)}, mode);
    if (sockets.ok() || sockets.status().code() != StatusCode::kUnavailable || tries <= 1) return sockets;
  }
}

bool AcceptAll(int fd, ConnectionLimits& limits, const std::function<void(AcceptedSocket)>& take) {
  while (true) {
    sockaddr_storage peer{};
    socklen_t size = sizeof(peer);
    UniqueFd client(::accept4(fd, reinterpret_cast<sockaddr*>(&peer), &size, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (!client.valid()) {
      if (errno == EINTR || errno == ECONNABORTED) continue;
      return errno == EAGAIN || errno == EWOULDBLOCK;
    }
    const bool is_unix = peer.ss_family == AF_UNIX;
    const int on = 1;
    if (!is_unix) ::setsockopt(client.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    GuardedOrReport("accepting a connection", [&] {
      ConnectionLimits::Place place = is_unix ? limits.TakeForUser(UserOf(client)) : limits.Take(peer);
      if (place) take({std::move(client), std::move(place), is_unix});
    });
  }
}

uint16_t PortOf(const std::vector<ListeningSocket>& sockets) {
  for (const ListeningSocket& socket : sockets) {
    if (const uint16_t port = PortOf(socket.fd); port != 0) return port;
  }
  return 0;
}

bool IsLoopback(const std::string& addresses) {
  return std::ranges::all_of(ListedAddresses(addresses), IsLoopbackAddress);
}

}  // namespace braid
