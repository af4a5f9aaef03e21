// The address of a Redis, as --sequence_state_store names it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "http_client/socket.h"

namespace braid {

struct RedisUrl {
  // Where it is; the host may be the path of a Unix socket. With a master several, of sentinels that know where
  // that is; of a cluster several of its nodes.
  std::vector<client::Address> addresses;
  std::string master;
  bool cluster = false;
  std::string user;  // "": the default one
  int64_t database = 0;
  bool tls = false;
};

// Reads "redis://[USER@]HOST[:PORT][/DB]", "rediss://..." (the same with TLS), "unix:///PATH[?db=DB]",
// "redis+sentinel://[USER@]HOST[:PORT],.../MASTER[/DB]", "rediss+sentinel://...", and
// "redis+cluster://[USER@]HOST[:PORT],...", "rediss+cluster://...", whose database is 0. Errors:
// INVALID_ARGUMENT, which says what is wrong without what the URL has: a password in it is refused, since
// everybody who lists processes would see it.
Result<RedisUrl> ParseRedisUrl(std::string_view text);

}  // namespace braid
