// One POST .../generate or .../generate_stream, from its headers to the end of its answer.
//
// generate answers with the one response of the model. From a decoupled model it takes the first, and waits
// for the end to know that it was the only one; with a second the answer is an error, and the request is
// cancelled, as nobody would see what else it makes.
//
// generate_stream answers with server-sent events, one for each response, as they come; a model that answers
// once makes one. The first response gives the HTTP status. Errors from before the model took the request are
// answered as by any other route, without a stream.
//
// Responses become JSON on the thread that brings them, which holds up a model that makes large ones instead
// of gathering them. When the client goes away, or reads so slowly that too much waits for it, the request is
// cancelled.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "base/log.h"
#include "protocols/inference/http_inference.h"

namespace braid {

class GenerateCall final : public HttpInference {
 public:
  struct Body {
    bool stream = false;
    size_t max_input_bytes = 0;
    Logger* log = nullptr;  // outlives all requests
  };
  GenerateCall(Setup setup, Body body);

  void Respond(std::optional<InferenceResponse> response, bool final) override;

 private:
  Status Read(std::string_view front, size_t rest, std::vector<std::span<std::byte>>& destinations,
              simdjson::dom::parser& parser, InferenceRequest& request) override;
  // A response is written as it comes, whatever its size.
  bool IsSlow(const InferenceResponse&) const override { return false; }
  Result<HttpResponse> Write(InferenceResponse response) override;

  void RespondOnce(std::optional<InferenceResponse> response, bool final);
  void AnswerWith(HttpResponse response);

  void RespondStream(const std::optional<InferenceResponse>& response, bool final);
  void SendEvent(const InferenceResponse& response);
  void BeginStream(unsigned status);

  const Body body_;
  const bool decoupled_;
  std::string id_;

  // Owned by the request's owner while the request runs.
  bool done_ = false;                          // nothing more is sent
  std::optional<InferenceResponse> response_;  // generate: the first
  bool streaming_ = false;                     // generate_stream: the head is out
  bool gone_ = false;                          // nobody reads the stream any more
};

}  // namespace braid
