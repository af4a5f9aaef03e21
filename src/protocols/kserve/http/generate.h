// GenerateCall: one POST .../generate or .../generate_stream, from its headers to the end of its answer.
//
// generate answers with the model's only response. With a decoupled model it keeps the first response and
// waits for the end of the request. A second response turns the answer into an error and cancels the request,
// since its results would be lost.
//
// generate_stream answers with server-sent events, one for each response. The first response gives the HTTP
// status. Errors from before the model accepted the request are answered without a stream, like those of
// other routes.
//
// Responses become JSON on the thread that delivers them. This slows down a model with large responses, so
// that they do not pile up. A client that disconnects, or reads too slowly, has its request cancelled.
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
  // Responses of any size are written at once.
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

  // Used by the request's owner while the request runs.
  bool done_ = false;                          // no more output
  std::optional<InferenceResponse> response_;  // generate: the first response
  bool streaming_ = false;                     // generate_stream: the head was sent
  bool gone_ = false;                          // the client no longer reads the stream
};

}  // namespace braid
