// InferCall: one POST .../infer, from its headers to its answer.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "protocols/inference/http_inference.h"
#include "protocols/kserve/http/infer_request.h"
#include "protocols/net/compression.h"

namespace braid {

class InferCall final : public HttpInference {
 public:
  struct Body {
    // Value of Inference-Header-Content-Length.
    std::optional<uint64_t> json_size;
    ContentCoding response_coding = ContentCoding::kIdentity;
    size_t max_input_bytes = 0;
    // The server's regions, used while the body is read. Null: none.
    const ClientSharedMemory* client_memory = nullptr;
    Authorization authorization = {};  // of the request, for regions
  };
  InferCall(Setup setup, Body body) : HttpInference(std::move(setup)), body_(std::move(body)) {}

  // Returns the value of that header. Errors: INVALID_ARGUMENT, in the dialect's words, if it is not a number
  // or exceeds a body of known size.
  static Result<std::optional<uint64_t>> JsonSize(const HttpExchange& exchange, const DialectRules& rules);

  size_t front_bytes() const override;

 private:
  Status Read(std::string_view front, size_t rest, std::vector<std::span<std::byte>>& destinations,
              simdjson::dom::parser& parser, InferenceRequest& request) override;
  Status ReadRest(InferenceRequest& request) override;
  Status Finish(InferenceResponse& response) override { return format_.plan.Apply(response.outputs); }
  bool IsSlow(const InferenceResponse& response) const override;
  Result<HttpResponse> Write(InferenceResponse response) override;

  Status ReadFront(std::string_view front, size_t rest, const HttpInferTarget& target,
                   simdjson::dom::parser& parser, HttpInferRequest& read);

  const Body body_;
  std::string_view sequence_header_;  // in the exchange's head
  std::unique_ptr<HttpBinarySequence> sequence_;
  std::string id_;
  HttpOutputFormat format_;
};

}  // namespace braid
