// Functions for listening sockets.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/status.h"
#include "base/unique_fd.h"
#include "protocols/net/connection_limits.h"
#include "protocols/net/socket_file.h"

namespace braid {

// The mode of a Unix socket's file by default: only the server's own user may connect.
inline constexpr uint32_t kUnixSocketMode = 0600;

// Splits a list at commas and strips blanks: "127.0.0.1, ::1".
std::vector<std::string> ListedAddresses(const std::string& addresses);

struct ListeningSocket {
  UniqueFd fd;
  SocketFile file = {};  // of a Unix socket; destroyed before `fd`
};

// Returns non-blocking listening sockets, one for each listed address, all on one port. An address is a host
// name, numeric IPv4 or IPv6, or the address of a Unix socket, which has no port (UnixPath()).
// Port 0: the system chooses a port that is free at all addresses. `reuse_port`: another process may listen
// on the same port. `mode`: see ListenAtPath(). "::" includes IPv4 unless the list has an IPv4 address.
// Errors: UNAVAILABLE "Socket '{address}:{port}' already in use"; INVALID_ARGUMENT for an invalid address;
// those of ListenAtPath() and the system.
Result<std::vector<ListeningSocket>> ListenOn(const std::string& addresses, uint16_t port, bool reuse_port,
                                              uint32_t mode = kUnixSocketMode);

// An accepted connection. Its socket is non-blocking.
struct AcceptedSocket {
  UniqueFd fd;
  ConnectionLimits::Place place;
  bool is_unix = false;
};

// Accepts all connections pending at `fd` and passes them to `take`; closes those that the limits refuse.
// Returns false if the process or the system has no free descriptors. Connections are then left pending; call
// it again later.
bool AcceptAll(int fd, ConnectionLimits& limits, const std::function<void(AcceptedSocket)>& take);

// Returns the port that the sockets share, or 0 if none has a port.
uint16_t PortOf(const std::vector<ListeningSocket>& sockets);

// Whether the listed addresses can be reached from this machine only. False if one of them is invalid.
bool IsLoopback(const std::string& addresses);

}  // namespace braid
