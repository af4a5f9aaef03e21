// MemoryBudget: the memory that the process may hold for its clients (MemoryUse()). As it fills up, requests
// are delayed, then refused:
//
//   below 80 %   all requests are admitted
//   from 80 %    a large request waits in its socket for a while, so that others finish first
//   from 95 %    new requests are refused, with 429 or RESOURCE_EXHAUSTED
//   from 100 %   partly read requests are refused too
//
// A request that was given to its model is never dropped. Requests for health, metadata, metrics and control
// are always answered, unless they have large bodies.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/memory_use.h"
#include "base/status.h"
#include "protocols/net/refusals.h"

namespace braid {

class MemoryBudget {
 public:
  // A request with more unread bytes than this is large.
  static constexpr size_t kLarge = size_t{256} << 10;
  // The interval at which the socket of a waiting request is checked again.
  static constexpr int64_t kLookNs = 10'000'000;

  // `refusals` outlives the budget.
  MemoryBudget(size_t most, Refusals& refusals) : most_(most), refusals_(refusals) {}

  size_t most() const { return most_; }
  bool tight() const { return MemoryUse() >= most_ / 5 * 4; }
  // Admits a new request. Errors: RESOURCE_EXHAUSTED, which is counted.
  Status Admit() { return MemoryUse() < most_ / 20 * 19 ? OkStatus() : Refused(); }
  // Admits the rest of a partly read request. Errors: as Admit().
  Status Continue() { return MemoryUse() < most_ ? OkStatus() : Refused(); }

  // Whether a client that sends a large request must wait now, for at most a second in all. Ask again after
  // kLookNs. The client keeps `since_ns`: the time when it began to wait, or 0 while memory is not short.
  bool HoldsBack(int64_t& since_ns);
  // The number of clients that have waited.
  uint64_t waited() const { return waited_.load(std::memory_order_relaxed); }

 private:
  Status Refused();

  const size_t most_;
  Refusals& refusals_;
  std::atomic<uint64_t> waited_{0};
};

}  // namespace braid
