// ClientLimits: the limits for clients that the ports of a server share, with their counts of refusals.
#pragma once

#include <cstdint>
#include <memory>

#include "protocols/net/connection_limits.h"
#include "protocols/net/memory_budget.h"
#include "protocols/net/refusals.h"

namespace braid {

struct ClientLimits {
  struct Options {
    ConnectionLimits::Options connections;
    size_t memory_bytes = SIZE_MAX;
  };
  ClientLimits() : ClientLimits(Options()) {}
  // `log`: see Refusals.
  explicit ClientLimits(const Options& options, Logger* log = nullptr)
      : refusals(log),
        connections(std::make_shared<ConnectionLimits>(options.connections, refusals)),
        budget(options.memory_bytes, refusals) {}

  Refusals refusals;
  const std::shared_ptr<ConnectionLimits> connections;  // shared with the open connections
  MemoryBudget budget;
};

}  // namespace braid
