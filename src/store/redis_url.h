// The address of a Redis, as --sequence_state_store names it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/status.h"

namespace braid {

struct RedisUrl {
  std::string host;  // or, beginning with '/', the path of a Unix socket
  std::string port;
  std::string user;  // "": the default one
  int64_t database = 0;
  bool tls = false;
};

// Reads "redis://[USER@]HOST[:PORT][/DB]", "rediss://..." (the same with TLS) and "unix:///PATH[?db=DB]". Errors:
// INVALID_ARGUMENT, which says what is wrong without what the URL has: a password in it is refused, since
// everybody who lists processes would see it.
Result<RedisUrl> ParseRedisUrl(std::string_view text);

}  // namespace braid
