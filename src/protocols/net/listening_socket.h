// Functions for listening sockets.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/status.h"
#include "base/unique_fd.h"
#include "protocols/net/connection_limits.h"

namespace braid {

// Splits a list at commas and strips blanks: "127.0.0.1, ::1".
std::vector<std::string> ListedAddresses(const std::string& addresses);

// Returns non-blocking listening sockets, one for each listed address, all on one port. An address is a host
// name, or numeric IPv4 or IPv6. Port 0: the system chooses a port for the first address. `reuse_port`:
// another process may listen on the same port.
// Errors: UNAVAILABLE "Socket '{address}:{port}' already in use"; INVALID_ARGUMENT for an invalid address;
// those of the system.
Result<std::vector<UniqueFd>> ListenOn(const std::string& addresses, uint16_t port, bool reuse_port);

// An accepted connection. Its socket is non-blocking.
struct AcceptedSocket {
  UniqueFd fd;
  ConnectionLimits::Place place;
};

// Accepts all connections pending at `fd` and passes them to `take`; closes those that the limits refuse.
// Returns false if the process or the system has no free descriptors. Connections are then left pending; call
// it again later.
bool AcceptAll(int fd, ConnectionLimits& limits, const std::function<void(AcceptedSocket)>& take);

// Returns the port of a socket, or 0 if it has none.
uint16_t PortOf(int fd);

// Whether the listed addresses can be reached from this machine only. False if one of them is invalid.
bool IsLoopback(const std::string& addresses);

}  // namespace braid
