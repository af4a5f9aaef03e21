// MemoryBudget: what the process may hold for its clients (MemoryUse()), and what becomes of their requests
// as that is used up.
//
//   below 80 %   all are taken
//   from 80 %    a large request waits in its socket for a while, so that others end first
//   from 95 %    new requests are refused, with 429 or RESOURCE_EXHAUSTED
//   from 100 %   so are those of which a part was read
//
// A request that was given to its model is never dropped. Health, metadata, metrics and control are answered
// throughout, unless they have large bodies.
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
  // Requests with more than this left to read wait.
  static constexpr size_t kLarge = size_t{256} << 10;
  // Their sockets are looked at again so often.
  static constexpr int64_t kLookNs = 10'000'000;

  // `refusals` outlives it.
  MemoryBudget(size_t most, Refusals& refusals) : most_(most), refusals_(refusals) {}

  size_t most() const { return most_; }
  bool tight() const { return MemoryUse() >= most_ / 5 * 4; }
  // Whether a new request is taken. Errors: RESOURCE_EXHAUSTED, which is counted.
  Status Admit() { return MemoryUse() < most_ / 20 * 19 ? OkStatus() : Refused(); }
  // Whether one of which a part was read is read further. Errors: as Admit().
  Status Continue() { return MemoryUse() < most_ ? OkStatus() : Refused(); }

  // Whether a client that sends a large request waits now; it asks again after kLookNs, and waits for a
  // second at most. `since_ns` is the client's own: when it began to wait, 0 as long as memory is not short.
  bool HoldsBack(int64_t& since_ns);
  // How many have waited.
  uint64_t waited() const { return waited_.load(std::memory_order_relaxed); }

 private:
  Status Refused();

  const size_t most_;
  Refusals& refusals_;
  std::atomic<uint64_t> waited_{0};
};

}  // namespace braid
