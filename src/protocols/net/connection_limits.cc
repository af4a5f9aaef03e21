#include "protocols/net/connection_limits.h"

#include <netinet/in.h>

#include <spdlog/fmt/fmt.h>

#include <cstring>

namespace braid {
namespace {

// Returns the key by which an address counts. IPv6: the first half. IPv4, also mapped into IPv6: the whole
// address after zeros, which begin no IPv6 address of a real connection.
std::array<uint8_t, 8> KeyOf(const sockaddr_storage& peer) {
  std::array<uint8_t, 8> key = {};
  if (peer.ss_family == AF_INET) {
    std::memcpy(key.data() + 4, &reinterpret_cast<const sockaddr_in&>(peer).sin_addr, 4);
  } else if (peer.ss_family == AF_INET6) {
    const in6_addr& address = reinterpret_cast<const sockaddr_in6&>(peer).sin6_addr;
    if (IN6_IS_ADDR_V4MAPPED(&address)) {
      std::memcpy(key.data() + 4, address.s6_addr + 12, 4);
    } else {
      std::memcpy(key.data(), address.s6_addr, key.size());
    }
  }
  return key;
}

}  // namespace

ConnectionLimits::Place ConnectionLimits::Take(const sockaddr_storage& peer) { return Take(KeyOf(peer)); }

ConnectionLimits::Place ConnectionLimits::TakeForUser(uid_t user) {
  // Addresses that begin with this byte are of groups, so no connection has one.
  std::array<uint8_t, 8> key = {0xff};
  std::memcpy(key.data() + 4, &user, sizeof user);
  return Take(key);
}

ConnectionLimits::Place ConnectionLimits::Take(const std::array<uint8_t, 8>& key) {
  Place place;
  place.address_ = key;
  MutexLock lock(mutex_);
  if (open_.load(std::memory_order_relaxed) >= options_.most) {
    refusals_.Count(Limit::kConnections, fmt::format("{} connections are open", options_.most));
    return place;
  }
  size_t& of_address = by_address_[place.address_];
  if (of_address >= options_.most_per_address) {
    refusals_.Count(Limit::kConnectionsPerAddress,
                    fmt::format("one address has {} connections open", options_.most_per_address));
    return place;
  }
  ++of_address;
  open_.fetch_add(1, std::memory_order_relaxed);
  place.limits_ = shared_from_this();
  return place;
}

void ConnectionLimits::Leave(const std::array<uint8_t, 8>& address) {
  MutexLock lock(mutex_);
  open_.fetch_sub(1, std::memory_order_relaxed);
  const auto found = by_address_.find(address);
  if (--found->second == 0) by_address_.erase(found);
}

}  // namespace braid
