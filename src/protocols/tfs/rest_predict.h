// One POST ...:predict, from its headers to its answer.
#pragma once

#include <simdjson.h>

#include <memory>
#include <optional>
#include <string>

#include "protocols/http/exchange.h"
#include "protocols/tfs/rest_predict_request.h"
#include "serving/request.h"
#include "serving/servable.h"
#include "serving/tracer.h"

namespace braid {

// Owned by the connection until it has answered, and by itself while its request runs, which a model may do
// after its answer. Nothing of the server is touched by Respond(): a request may end after the server has
// gone.
class TfsRestPredictCall final : public HttpCall,
                                 public ResponseSink,
                                 public std::enable_shared_from_this<TfsRestPredictCall> {
 public:
  struct Setup {
    std::shared_ptr<HttpExchange> exchange;
    std::unique_ptr<ServableHandle> servable;
    std::string model_name;
    int64_t model_version = -1;
    // Headers that the model wants to see.
    Parameters header_parameters;
    // Of the exchange's io thread; used in OnFront() alone.
    simdjson::dom::parser* parser = nullptr;
    // May be null; used in OnBody() alone.
    Tracer* tracer = nullptr;
  };
  explicit TfsRestPredictCall(Setup setup);

  std::optional<HttpResponse> OnFront(std::string_view front, size_t rest,
                                      std::vector<std::span<std::byte>>& destinations) override;
  void OnBody() override;
  void Respond(std::optional<InferenceResponse> response, bool final) override;

 private:
  // The body into request_.
  Result<TfsFormat> Read(std::string_view body);

  Setup setup_;
  int64_t received_ns_ = 0;                    // 0 while nothing is traced
  std::shared_ptr<RequestTrace> trace_;        // shared with the request
  std::unique_ptr<InferenceRequest> request_;  // until it is handed to the servable
  TfsFormat format_ = TfsFormat::kColumn;
  bool stateful_ = false;
  // Owned by the request's owner while the request runs.
  std::shared_ptr<TfsRestPredictCall> self_;
  bool answered_ = false;
};

}  // namespace braid
