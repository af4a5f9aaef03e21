// Sends one HTTP/1.1 request to another server over a new connection. Blocks; call it only on threads that
// may wait.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/status.h"
#include "http_client/socket.h"

namespace braid::client {

struct HttpQuestion {
  std::string_view method;
  std::string_view target;
  std::string_view content_type = {};  // "": no body
  std::string_view body = {};
};

// Returns the status of the response, and reads only its head. Errors: UNAVAILABLE without a connection, or
// without a response within `timeout_ns`.
Result<int> AskHttp(const Dialer& dialer, const HttpQuestion& question, int64_t timeout_ns);

}  // namespace braid::client
