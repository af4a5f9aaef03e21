// KServe v2 inference messages over gRPC and HTTP, and chat completions: encodes requests, and decodes
// responses without copying tensors.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "load/connection.h"
#include "load/tensor.h"

namespace braid::load {

// How tensors are sent over HTTP.
struct HttpFormat {
  bool binary_inputs = true;
  bool binary_outputs = true;
};

// Connection-specific settings of encoded requests.
struct Encoding {
  Protocol protocol = Protocol::kHttp;
  bool stream = false;               // gRPC: ModelStreamInfer in place of ModelInfer
  std::string authority;             // of the server, for the Host header
  Connection::Headers headers = {};  // of HTTP requests
  HttpFormat http = {};
  bool chat = false;  // HTTP: streamed chat completions (chat.h) in place of KServe v2
};

OutgoingMessage EncodeInfer(const Encoding& encoding, const InferRequest& request);

// An HTTP request body: the JSON and the binary tensors behind it.
struct HttpBody {
  std::string json;
  std::string binary;
};
HttpBody EncodeHttpBody(const InferRequest& request, const HttpFormat& format);

// Escapes a text as a path segment (RFC 3986): a model name may contain any character.
std::string PathPart(std::string_view text);
// Returns "/v2/models/M/versions/1".
std::string ModelPath(std::string_view model, std::string_view version);

// Encodes a whole HTTP request. `json_bytes`: the size of the JSON before binary tensors; 0: JSON alone.
OutgoingMessage EncodeHttp(const Encoding& encoding, std::string_view method, std::string_view path,
                           std::string_view body, size_t json_bytes);

// Decodes responses. Not thread-safe. A response is valid until the next Decode() and while its message
// lives.
class ResponseDecoder {
 public:
  explicit ResponseDecoder(const Encoding& encoding) : encoding_(encoding) {}

  // Errors: the message is malformed, or a stream's message reports that its request failed.
  Result<const InferResponse*> Decode(const ReceivedMessage& message);

 private:
  // The place of an output in an HTTP response.
  struct Place {
    bool binary = false;
    size_t offset = 0;
    size_t size = 0;
    std::string data;  // if not binary
  };
  Status DecodeGrpc(const Pieces& message);
  Status DecodeHttp(std::string_view body, size_t json_bytes);
  Status ParseJson(std::string_view json);
  Status DecodeChat(std::string_view data);

  const Encoding encoding_;
  InferResponse response_;
  // Responses to one request look alike, so JSON that equals the previous response's is not parsed again.
  std::string json_;
  std::vector<Place> places_;
  std::string text_;  // of a chat completion
};

}  // namespace braid::load
