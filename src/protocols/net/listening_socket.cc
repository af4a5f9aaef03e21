#include "protocols/net/listening_socket.h"

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>

#include "base/guard.h"

namespace braid {
namespace {

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

Result<UniqueFd> ListenOnOne(const std::string& address, uint16_t port, bool reuse_port) {
  const std::string where = address + ":" + std::to_string(port);
  BRAID_ASSIGN_OR_RETURN(const AddressInfo info, Resolve(address, port));
  UniqueFd fd(::socket(info->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd.valid()) return ErrnoError("cannot create a socket for " + where, errno);
  const int on = 1;
  ::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  if (reuse_port && ::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEPORT, &on, sizeof(on)) != 0) {
    return ErrnoError("cannot share the port of " + where, errno);
  }
  if (::bind(fd.get(), info->ai_addr, info->ai_addrlen) != 0 || ::listen(fd.get(), SOMAXCONN) != 0) {
    if (errno == EADDRINUSE) return UnavailableError("Socket '" + where + "' already in use");
    return ErrnoError("cannot listen on " + where, errno);
  }
  return fd;
}

bool IsLoopbackAddress(const std::string& address) {
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

Result<std::vector<UniqueFd>> ListenOn(const std::string& addresses, uint16_t port, bool reuse_port) {
  std::vector<UniqueFd> sockets;
  for (const std::string& address : ListedAddresses(addresses)) {
    BRAID_ASSIGN_OR_RETURN(UniqueFd socket, ListenOnOne(address, port, reuse_port));
    if (port == 0) port = PortOf(socket.get());
    sockets.push_back(std::move(socket));
  }
  return sockets;
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
    const int on = 1;
    ::setsockopt(client.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    GuardedOrReport("accepting a connection", [&] {
      ConnectionLimits::Place place = limits.Take(peer);
      if (place) take({std::move(client), std::move(place)});
    });
  }
}

uint16_t PortOf(int fd) {
  sockaddr_storage address{};
  socklen_t size = sizeof(address);
  if (::getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size) != 0) return 0;
  if (address.ss_family == AF_INET6) {
    sockaddr_in6 v6{};
    std::memcpy(&v6, &address, sizeof(v6));
    return ntohs(v6.sin6_port);
  }
  sockaddr_in v4{};
  std::memcpy(&v4, &address, sizeof(v4));
  return ntohs(v4.sin_port);
}

bool IsLoopback(const std::string& addresses) {
  return std::ranges::all_of(ListedAddresses(addresses), IsLoopbackAddress);
}

}  // namespace braid
