// HttpInference: an HTTP request for one inference, from its headers to its response, the common part of
// KServe's infer and generate and TensorFlow Serving's predict. Their subclasses read and write the bodies.
#pragma once

#include <simdjson.h>

#include <memory>
#include <optional>
#include <string>

#include "protocols/http/exchange.h"
#include "protocols/inference/unary_inference.h"

namespace braid {

// Owned by the connection until it has responded, and by itself while its request runs, which may continue
// after the response. Respond() uses nothing of the server, because a request may end after the server was
// destroyed.
class HttpInference : public HttpCall,
                      public UnaryInference,
                      public std::enable_shared_from_this<HttpInference> {
 public:
  struct Setup {
    std::shared_ptr<HttpExchange> exchange;
    std::unique_ptr<ServableHandle> servable;
    std::string model_name;
    int64_t model_version = -1;
    // The headers that are forwarded to the model.
    Parameters header_parameters;
    // The parser of the exchange's io thread, for fronts that are read there.
    simdjson::dom::parser* parser = nullptr;
    // May be null; used before the request begins.
    Tracer* tracer = nullptr;
    // Set if the servable counts its calls.
    std::optional<ApiCall> api;
  };
  explicit HttpInference(Setup setup);

  std::optional<HttpResponse> OnFront(std::string_view front, size_t rest,
                                      std::vector<std::span<std::byte>>& destinations) final;
  void OnBody() final;

 protected:
  // Larger outputs are converted to JSON on another thread than the one that brings the response.
  static constexpr size_t kMaxInlineJsonBytes = size_t{64} * 1024;

  // Builds the request from the body's front; see HttpCall::OnFront(). Errors are the response.
  virtual Status Read(std::string_view front, size_t rest, std::vector<std::span<std::byte>>& destinations,
                      simdjson::dom::parser& parser, InferenceRequest& request) = 0;
  // Reads the rest of the body once all of it has arrived.
  virtual Status ReadRest(InferenceRequest&) { return OkStatus(); }
  // Builds the body of a successful response. Called on the thread that brings the response, or on another
  // one.
  virtual Result<HttpResponse> Write(InferenceResponse response) = 0;
  // Finishes a response on the thread that brings it. Errors become the response.
  virtual Status Finish(InferenceResponse&) { return OkStatus(); }
  // Whether Write() takes so long that another thread should call it.
  virtual bool IsSlow(const InferenceResponse& response) const = 0;

  Servable& servable() { return setup_.servable->get(); }
  HttpExchange& exchange() const { return *setup_.exchange; }
  // Returns the exchange for the response that ends it.
  std::shared_ptr<HttpExchange> TakeExchange() { return std::move(setup_.exchange); }
  // Moves out the reference that keeps this object alive while the request runs.
  std::shared_ptr<HttpInference> TakeSelf() { return std::move(self_); }

 private:
  void Answer(InferenceResponse response, bool last) override;
  void Ended() override { self_.reset(); }
  std::optional<HttpResponse> Refuse(const Status& status);

  Setup setup_;
  int64_t received_ns_;                        // 0 if nothing is traced
  std::unique_ptr<InferenceRequest> request_;  // until it is passed to the servable
  // Keeps this object alive while the request runs. Used by the request's owner.
  std::shared_ptr<HttpInference> self_;
};

}  // namespace braid
