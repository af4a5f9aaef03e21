// Sockets that listen.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/status.h"
#include "base/unique_fd.h"
#include "protocols/net/connection_limits.h"

namespace braid {

// The parts of a list with commas, blanks around them left out: "127.0.0.1, ::1".
std::vector<std::string> ListedAddresses(const std::string& addresses);

// Non-blocking sockets, one for each listed address (a name, or numbers of IPv4 or IPv6), all on one port; port 0: the
// system chooses it for the first. `reuse_port`: another process may listen on the same port. Errors: UNAVAILABLE "Socket
// '{address}:{port}' already in use"; INVALID_ARGUMENT for an address that is none; those of the system.
Result<std::vector<UniqueFd>> ListenOn(const std::string& addresses, uint16_t port, bool reuse_port);

// A connection that was taken in, non-blocking.
struct AcceptedSocket {
  UniqueFd fd;
  ConnectionLimits::Place place;
};

// Takes in all connections that wait at `fd` and gives them to `take`, but for those that the limits refuse,
// which are closed. False when the process or the system has no more descriptors: others wait, and are to be
// asked for later.
bool AcceptAll(int fd, ConnectionLimits& limits, const std::function<void(AcceptedSocket)>& take);

// The port of a socket; 0 when it has none.
uint16_t PortOf(int fd);

// Whether only this machine reaches the listed addresses. False for a text that is no address.
bool IsLoopback(const std::string& addresses);

}  // namespace braid
