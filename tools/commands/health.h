// `braid health`: asks a running server whether it is ready, as the health checks of containers and scripts
// do. The exit code is 0 when it is, and 1 otherwise, or when it does not answer in time.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/status.h"

namespace braid {

struct ServerUrl {
  bool tls = false;
  std::string host;
  std::string port;
};

// "https://host:8443", "host:8000", "[::1]:8000", "host"; without a scheme it is http, without a port 8000.
// Errors: INVALID_ARGUMENT.
Result<ServerUrl> ParseServerUrl(std::string_view text);

// Blocks. OK when the server answers GET `path` with 200. The certificate of a server with TLS is not checked:
// what is asked holds no secret. Errors: UNAVAILABLE when there is no connection, no answer within
// `timeout_ns`, or another one.
Status AskHealth(const ServerUrl& url, std::string_view path, int64_t timeout_ns);

// The models that keep the server from being ready, a line for each, with its reason; "" where the server does not say.
// Blocks.
std::string WhatIsNotReady(const ServerUrl& url, int64_t timeout_ns);

int RunHealth(int argc, const char* const* argv);

}  // namespace braid
