// RedisUrl: the address of a Redis, as --sequence_state_store names it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "http_client/socket.h"

namespace braid {

struct RedisUrl {
  // The servers; a host may be the path of a Unix socket. With `master` there are several: the sentinels that
  // know it. A cluster has several of its nodes.
  std::vector<client::Address> addresses;
  std::string master;
  bool cluster = false;
  std::string user;  // "": the default user
  int64_t database = 0;
  bool tls = false;
};

// Parses "redis://[USER@]HOST[:PORT][/DB]", "rediss://..." (the same with TLS), "unix:///PATH[?db=DB]",
// "redis+sentinel://[USER@]HOST[:PORT],.../MASTER[/DB]", "rediss+sentinel://...", and
// "redis+cluster://[USER@]HOST[:PORT],...", "rediss+cluster://...", whose database is 0.
//
// Errors: INVALID_ARGUMENT with a text that does not quote the URL. A password in the URL is refused, since
// all users who list processes would see it.
Result<RedisUrl> ParseRedisUrl(std::string_view text);

}  // namespace braid
