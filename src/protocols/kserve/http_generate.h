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

#include <simdjson.h>

#include <memory>
#include <optional>
#include <string>

#include "base/log.h"
#include "protocols/http/exchange.h"
#include "serving/request.h"
#include "serving/servable.h"
#include "serving/tracer.h"

namespace braid {

// Owned by the connection until it has answered, and by itself while its request runs.
class GenerateCall final : public HttpCall,
                           public ResponseSink,
                           public std::enable_shared_from_this<GenerateCall> {
 public:
  struct Setup {
    std::shared_ptr<HttpExchange> exchange;
    std::unique_ptr<ServableHandle> servable;
    std::string model_name;
    int64_t model_version = -1;
    bool stream = false;
    // Headers that the model wants to see.
    Parameters header_parameters;
    size_t max_input_bytes = 0;
    // Of the exchange's io thread; used in OnFront() alone.
    simdjson::dom::parser* parser = nullptr;
    Logger* log = nullptr;  // outlives all requests
    // May be null; used in OnBody() alone.
    Tracer* tracer = nullptr;
  };
  explicit GenerateCall(Setup setup) : setup_(std::move(setup)) {}

  std::optional<HttpResponse> OnFront(std::string_view front, size_t rest,
                                      std::vector<std::span<std::byte>>& destinations) override;
  void OnBody() override;
  void Respond(std::optional<InferenceResponse> response, bool final) override;

 private:
  void RespondOnce(std::optional<InferenceResponse> response, bool final);
  void Answer(HttpResponse response);

  void RespondStream(const std::optional<InferenceResponse>& response, bool final);
  void SendEvent(const InferenceResponse& response);
  void BeginStream(unsigned status);

  Setup setup_;
  std::unique_ptr<InferenceRequest> request_;  // until it is handed to the servable
  std::string id_;
  bool decoupled_ = false;
  std::shared_ptr<Cancellation> cancellation_;  // shared with the request and the connection

  // Owned by the request's owner while the request runs.
  std::shared_ptr<GenerateCall> self_;
  bool answered_ = false;                      // nothing more is sent
  std::optional<InferenceResponse> response_;  // generate: the first
  bool streaming_ = false;                     // generate_stream: the head is out
  bool gone_ = false;                          // nobody reads the stream any more
};

}  // namespace braid
