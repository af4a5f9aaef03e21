// Sends one HTTP POST to another server. Blocks; call it only on threads that may wait.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/status.h"

namespace braid {

struct HttpUrl {
  std::string host;
  std::string port;
  std::string target;
};

// Parses "http://collector:4318/v1/traces". The scheme, the port (default 4318) and the path (default
// /v1/traces) are optional. Errors: INVALID_ARGUMENT; https is not supported.
Result<HttpUrl> ParseCollectorUrl(std::string_view text);

// Errors: UNAVAILABLE without a connection, without a response within `timeout_ns`, or for a status other
// than 2xx.
Status PostJson(const HttpUrl& url, const std::string& body, int64_t timeout_ns);

}  // namespace braid
