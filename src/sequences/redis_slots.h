// What a Redis Cluster says of where keys are: 16384 slots, each of which has a master.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "http_client/socket.h"
#include "sequences/redis_connection.h"

namespace braid {

inline constexpr size_t kRedisSlots = 16384;

// The slot of a key: CRC16 of what stands between its first '{' and the next '}', if anything does, else of all.
size_t RedisSlotOf(std::string_view key);

struct RedisSlotRange {
  size_t first = 0;
  size_t last = 0;
  client::Address master;
};

// Reads what CLUSTER SLOTS answers. A node of which no host is known is on that of `asked`. Errors: UNAVAILABLE for
// anything else, and where no slot has a master.
Result<std::vector<RedisSlotRange>> ReadRedisSlots(const RedisReply& reply, const client::Address& asked);

struct RedisRedirect {
  bool asks = false;  // ASK, for once; else MOVED, from now on
  size_t slot = 0;
  client::Address to;
};

// Reads "MOVED 3999 127.0.0.1:6381" and "ASK 3999 127.0.0.1:6381", as `asked` has answered it.
std::optional<RedisRedirect> ReadRedisRedirect(std::string_view error, const client::Address& asked);

}  // namespace braid
