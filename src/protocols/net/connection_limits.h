// ConnectionLimits: how many connections clients may have open, to all ports that share it and from one
// address.
//
//   auto place = limits->Take(peer);
//   if (!place) ...  // refused, and counted; the log has a line when that begins
//
// An address of IPv6 counts by its first 64 bits, which is what one machine gets.
#pragma once

#include <sys/socket.h>

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
  // The place of one connection, until it goes.
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
    std::shared_ptr<ConnectionLimits> limits_;  // shared with the other places; null: none
    std::array<uint8_t, 8> address_ = {};
  };

  // `refusals` outlives the calls of Take().
  ConnectionLimits(const Options& options, Refusals& refusals) : options_(options), refusals_(refusals) {}

  // A place for a connection from `peer`; none when there are too many. Any thread.
  Place Take(const sockaddr_storage& peer);

  size_t open() const { return open_.load(std::memory_order_relaxed); }

 private:
  void Leave(const std::array<uint8_t, 8>& address);

  const Options options_;
  std::atomic<size_t> open_{0};
  Refusals& refusals_;
  Mutex mutex_;
  std::map<std::array<uint8_t, 8>, size_t> by_address_ BRAID_GUARDED_BY(mutex_);
};

}  // namespace braid
