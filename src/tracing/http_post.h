// One HTTP POST to somebody else's server. Blocks; for threads that have nothing better to do.
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

// "http://collector:4318/v1/traces", with or without its scheme; without a port it is 4318, without a path
// /v1/traces. Errors: INVALID_ARGUMENT; https is not spoken.
Result<HttpUrl> ParseCollectorUrl(std::string_view text);

// Errors: UNAVAILABLE when there is no connection, no answer within `timeout_ns`, or one that is not 2xx.
Status PostJson(const HttpUrl& url, const std::string& body, int64_t timeout_ns);

}  // namespace braid
