// `braid health`: asks a running server whether it is ready, for health checks of containers and scripts. The
// exit code is 0 if it is ready, and 1 if it is not or does not answer in time.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/status.h"

namespace braid {

struct ServerUrl {
  bool tls = false;
  std::string host;  // the path of a Unix socket, without a port, if it begins with '/'
  std::string port;
};

// Parses "https://host:8443", "host:8000", "[::1]:8000", "host" or "unix:PATH". The default scheme is http,
// the default port 8000. Errors: INVALID_ARGUMENT.
Result<ServerUrl> ParseServerUrl(std::string_view text);

// Sends GET `path`; OK if the server answers 200. Blocks. Does not verify the server's certificate, because
// the request carries no secret. Errors: UNAVAILABLE for a failed connection, for a timeout (`timeout_ns`),
// or for another status.
Status AskHealth(const ServerUrl& url, std::string_view path, int64_t timeout_ns);

// Returns the models that keep the server from being ready, one line each with the reason; "" if the server
// does not list them. Blocks.
std::string WhatIsNotReady(const ServerUrl& url, int64_t timeout_ns);

int RunHealth(int argc, const char* const* argv);

}  // namespace braid
