// The framing of an HTTP/1.1 response: its head, and the chunks of its body.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/status.h"

namespace braid::client {

struct HttpHead {
  int status = 0;
  size_t head_bytes = 0;  // up to and including the empty line
  size_t body_bytes = 0;
  size_t json_bytes = 0;  // Inference-Header-Content-Length; 0: the body is only JSON
  bool chunked = false;
  bool events = false;      // the body is a stream of server-sent events
  bool to_the_end = false;  // the body ends with the connection
  bool close = false;
};

// Parses the head of a response from its first `bytes`. Returns nullopt if more bytes are needed. Errors:
// malformed, or longer than 64 KiB.
Result<std::optional<HttpHead>> DecodeHttpHead(std::string_view bytes);

// Moves whole chunks from the front of `bytes` to `body`. Returns whether the body has ended.
Result<bool> TakeChunks(std::string_view& bytes, std::string& body);

}  // namespace braid::client
