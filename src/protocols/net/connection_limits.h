// ConnectionLimits: limits on the open connections of clients, in all to the ports that share it, and from
// one address.
//
//   auto place = limits->Take(peer);
//   if (!place) ...  // refused and counted; the log has a line when refusals begin
//
// An IPv6 address counts by its first 64 bits, since one machine usually has all addresses below them. Clients
// of a Unix socket count by their user.
#pragma once

#include <sys/socket.h>
#include <sys/types.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>

#include "base/mutex.h"
#include "protocols/net/refusals.h"

namespace braid {

class ConnectionLimits : public std::enable_shared_from_this<ConnectionLimits> {
 public:
  struct Options {
    size_t most = 16384;
    size_t most_per_address = 8192;
  };
  // The place of one connection. Its destruction frees the place.
  class Place {
   public:
    Place() = default;
    Place(Place&&) = default;
    Place& operator=(Place&&) = delete;
    ~Place() {
      if (limits_ != nullptr) limits_->Leave(address_);
    }
    explicit operator bool() const { return limits_ != nullptr; }

   private:
    friend class ConnectionLimits;
    std::shared_ptr<ConnectionLimits> limits_;  // shared with the other places; null: no place
    std::array<uint8_t, 8> address_ = {};
  };

  // `refusals` outlives all calls of Take().
  ConnectionLimits(const Options& options, Refusals& refusals) : options_(options), refusals_(refusals) {}

  // Returns a place for a connection from `peer`, or none beyond a limit. Any thread.
  Place Take(const sockaddr_storage& peer);
  // The same for a connection over a Unix socket.
  Place TakeForUser(uid_t user);

  size_t open() const { return open_.load(std::memory_order_relaxed); }

 private:
  Place Take(const std::array<uint8_t, 8>& key);
  void Leave(const std::array<uint8_t, 8>& address);

  const Options options_;
  std::atomic<size_t> open_{0};
  Refusals& refusals_;
  Mutex mutex_;
  std::map<std::array<uint8_t, 8>, size_t> by_address_ BRAID_GUARDED_BY(mutex_);
};

}  // namespace braid
