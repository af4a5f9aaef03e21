// One request of HTTP/1.1 to somebody else's server, over a connection of its own. Blocks; for threads that have nothing better to
// do.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/status.h"
#include "http_client/socket.h"

namespace braid::client {

struct HttpQuestion {
  std::string_view method;
  std::string_view target;
  std::string_view content_type = {};  // "": there is no body
  std::string_view body = {};
};

// The status of the answer, of which no more than the head is read. Errors: UNAVAILABLE when there is no connection, or no answer
// within `timeout_ns`.
Result<int> AskHttp(const Dialer& dialer, const HttpQuestion& question, int64_t timeout_ns);

}  // namespace braid::client
