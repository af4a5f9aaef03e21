// The slots of a Redis Cluster: 16384, each with a master.
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

// Returns the slot of a key: CRC16 of the text between its first '{' and the next '}', if it is not empty,
// else of the whole key.
size_t RedisSlotOf(std::string_view key);

struct RedisSlotRange {
  size_t first = 0;
  size_t last = 0;
  client::Address master;
};

// Reads a reply to CLUSTER SLOTS. A node without a known host has that of `asked`. Errors: UNAVAILABLE for
// any other reply, and if no slot has a master.
Result<std::vector<RedisSlotRange>> ReadRedisSlots(const RedisReply& reply, const client::Address& asked);

struct RedisRedirect {
  bool asks = false;  // ASK, for one command; otherwise MOVED, from now on
  size_t slot = 0;
  client::Address to;
};

// Reads "MOVED 3999 127.0.0.1:6381" or "ASK 3999 127.0.0.1:6381", as answered by `asked`.
std::optional<RedisRedirect> ReadRedisRedirect(std::string_view error, const client::Address& asked);

}  // namespace braid
