// An HTTP request that asks for one inference, from its headers to its answer: what KServe's infer and
// generate and TensorFlow Serving's predict share. What differs, the bodies, is in the classes of the
// protocols.
#pragma once

#include <simdjson.h>

#include <memory>
#include <optional>
#include <string>

#include "protocols/http/exchange.h"
#include "protocols/inference/unary_inference.h"

namespace braid {

// Owned by the connection until it has answered, and by itself while its request runs, which a model may do
// after its answer. Nothing of the server is touched by Respond(): a request may end after the server has
// gone.
class HttpInference : public HttpCall,
                      public UnaryInference,
                      public std::enable_shared_from_this<HttpInference> {
 public:
  struct Setup {
    std::shared_ptr<HttpExchange> exchange;
    std::unique_ptr<ServableHandle> servable;
    std::string model_name;
    int64_t model_version = -1;
    // Headers that the model wants to see.
    Parameters header_parameters;
    // Of the exchange's io thread, for fronts that are read there.
    simdjson::dom::parser* parser = nullptr;
    // May be null; used before the request begins.
    Tracer* tracer = nullptr;
    // When something is to be counted for the servable.
    std::optional<ApiCall> api;
  };
  explicit HttpInference(Setup setup);

  std::optional<HttpResponse> OnFront(std::string_view front, size_t rest,
                                      std::vector<std::span<std::byte>>& destinations) final;
  void OnBody() final;

 protected:
  // Outputs above this size become JSON on another thread than the one that brings the response.
  static constexpr size_t kMaxInlineJsonBytes = size_t{64} * 1024;

  // Makes the request of the body's front; see HttpCall::OnFront(). Errors are the answer.
  virtual Status Read(std::string_view front, size_t rest, std::vector<std::span<std::byte>>& destinations,
                      simdjson::dom::parser& parser, InferenceRequest& request) = 0;
  // What is to be read once all of the body is there.
  virtual Status ReadRest(InferenceRequest&) { return OkStatus(); }
  // Makes the answer of a good response. On the thread that brings the response, or another.
  virtual Result<HttpResponse> Write(InferenceResponse response) = 0;
  // What is done to a response on the thread that brings it. Errors become the answer.
  virtual Status Finish(InferenceResponse&) { return OkStatus(); }
  // Whether writing takes so long that it is better done on another thread.
  virtual bool IsSlow(const InferenceResponse& response) const = 0;

  Servable& servable() { return setup_.servable->get(); }
  HttpExchange& exchange() const { return *setup_.exchange; }
  // The exchange, for an answer that ends it.
  std::shared_ptr<HttpExchange> TakeExchange() { return std::move(setup_.exchange); }
  // The request's share in this object.
  std::shared_ptr<HttpInference> TakeSelf() { return std::move(self_); }

 private:
  void Answer(InferenceResponse response, bool last) override;
  void Ended() override { self_.reset(); }
  std::optional<HttpResponse> Refuse(const Status& status);

  Setup setup_;
  int64_t received_ns_;                        // 0 while nothing is traced
  std::unique_ptr<InferenceRequest> request_;  // until it is handed to the servable
  std::shared_ptr<HttpInference> self_;        // owned by the request's owner while the request runs
};

}  // namespace braid
