// KServe v2 over HTTP/1.1: the one request that the generator sends, and its response.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "expectation.h"
#include "options.h"

namespace braid::bench {

// A whole POST of .../infer, headers and body, with binary tensors (Protocol::kHttp) or as JSON.
std::string EncodeHttpInfer(const Options& options);

struct HttpHead {
  int status = 0;
  size_t head_bytes = 0;  // up to and with the empty line
  size_t body_bytes = 0;
  size_t json_bytes = 0;  // Inference-Header-Content-Length; 0: the body is JSON alone
  bool close = false;
};

// Reads the head of a response, of which `bytes` is a beginning. nullopt: more is needed. An error: it is
// malformed, longer than 64 KiB, or has a body of unknown length (chunked), which no inference response
// needs.
Result<std::optional<HttpHead>> DecodeHttpHead(std::string_view bytes);

// Finds the outputs in bodies of inference responses. Responses to one request are alike, so JSON that equals
// that of the response before is not parsed again. One per connection.
class HttpOutputDecoder {
 public:
  // Views into `body` and into the decoder, good until the next call.
  Result<std::vector<OutputView>> Decode(std::string_view body, size_t json_bytes);

 private:
  struct Layout {
    std::string name;
    bool binary = false;
    size_t offset = 0;  // behind the JSON
    size_t size = 0;
    std::string data;  // where not binary
  };
  static Result<std::vector<Layout>> ParseJson(std::string_view json);

  std::string json_;
  std::vector<Layout> layout_;
};

}  // namespace braid::bench
