// What frames a response of HTTP/1.1: its head, and the chunks of its body.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/status.h"

namespace braid::client {

struct HttpHead {
  int status = 0;
  size_t head_bytes = 0;  // up to and with the empty line
  size_t body_bytes = 0;
  size_t json_bytes = 0;  // Inference-Header-Content-Length; 0: the body is JSON alone
  bool chunked = false;
  bool to_the_end = false;  // the body ends with the connection
  bool close = false;
};

// Reads the head of a response, of which `bytes` is a beginning. nullopt: more is needed. Errors: it is malformed, or longer than
// 64 KiB.
Result<std::optional<HttpHead>> DecodeHttpHead(std::string_view bytes);

// Puts the chunks of a body, of which `bytes` is a beginning, together. nullopt: more is needed.
Result<std::optional<std::string>> JoinChunks(std::string_view bytes);

}  // namespace braid::client
