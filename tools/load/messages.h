// KServe v2's messages for inference, over gRPC and over HTTP: requests to ready-made bytes, responses from where they lie.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "load/connection.h"
#include "load/tensor.h"

namespace braid::load {

// How tensors go over HTTP.
struct HttpFormat {
  bool binary_inputs = true;
  bool binary_outputs = true;
};

// What a request is encoded for.
struct Encoding {
  Protocol protocol = Protocol::kHttp;
  bool stream = false;               // gRPC: ModelStreamInfer in place of ModelInfer
  std::string authority;             // of the server
  Connection::Headers headers = {};  // of HTTP requests
  HttpFormat http = {};
};

OutgoingMessage EncodeInfer(const Encoding& encoding, const InferRequest& request);

// The JSON of a request and the binary tensors behind it, as a body of HTTP has them.
struct HttpBody {
  std::string json;
  std::string binary;
};
HttpBody EncodeHttpBody(const InferRequest& request, const HttpFormat& format);

// A text as a part of a path (RFC 3986): a name may have any character.
std::string PathPart(std::string_view text);
// "/v2/models/M/versions/1".
std::string ModelPath(std::string_view model, std::string_view version);

// A whole HTTP request. `json_bytes`: of a body with binary tensors; 0: JSON alone.
OutgoingMessage EncodeHttp(const Encoding& encoding, std::string_view method, std::string_view path,
                           std::string_view body, size_t json_bytes);

// Reads responses. One for each thread; a response is good until the next one is decoded, and as long as its message.
class ResponseDecoder {
 public:
  explicit ResponseDecoder(const Encoding& encoding) : encoding_(encoding) {}

  // Errors: the message is malformed, or (of a stream) says that its request has failed.
  Result<const InferResponse*> Decode(const ReceivedMessage& message);

 private:
  // Where an output lies behind the JSON of a response.
  struct Place {
    bool binary = false;
    size_t offset = 0;
    size_t size = 0;
    std::string data;  // where not binary
  };
  Status DecodeGrpc(const Pieces& message);
  Status DecodeHttp(std::string_view body, size_t json_bytes);
  Status ParseJson(std::string_view json);

  const Encoding encoding_;
  InferResponse response_;
  // Responses to one request are alike, so JSON that equals that of the response before is not parsed again.
  std::string json_;
  std::vector<Place> places_;
};

}  // namespace braid::load
