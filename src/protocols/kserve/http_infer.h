// One POST .../infer, from its headers to its answer.
#pragma once

#include <simdjson.h>

#include <memory>
#include <optional>
#include <string>

#include "protocols/http/compression.h"
#include "protocols/http/exchange.h"
#include "protocols/kserve/http_infer_request.h"
#include "serving/request.h"
#include "serving/servable.h"
#include "serving/tracer.h"

namespace braid {

// Owned by the connection until it has answered, and by itself while its request runs, which a model may do
// after its answer. Nothing of the server is touched by Respond(): a request may end after the server has
// gone.
class InferCall final : public HttpCall, public ResponseSink, public std::enable_shared_from_this<InferCall> {
 public:
  struct Setup {
    std::shared_ptr<HttpExchange> exchange;
    std::unique_ptr<ServableHandle> servable;
    std::string model_name;
    int64_t model_version = -1;
    // Value of Inference-Header-Content-Length.
    std::optional<uint64_t> json_size;
    // Headers that the model wants to see.
    Parameters header_parameters;
    ContentCoding response_coding = ContentCoding::kIdentity;
    size_t max_input_bytes = 0;
    // Of the exchange's io thread; used in OnFront() alone.
    simdjson::dom::parser* parser = nullptr;
    // Of the server; used in OnFront() alone.
    const ClientSharedMemory* client_memory = nullptr;
    // May be null; used in OnBody() alone.
    Tracer* tracer = nullptr;
  };
  explicit InferCall(Setup setup);

  // Reads that header. Errors: INVALID_ARGUMENT when it is no number, or not within a body whose size is
  // known; in the words of the dialect.
  static Result<std::optional<uint64_t>> JsonSize(const HttpExchange& exchange,
                                                  Dialect dialect = Dialect::kTriton);

  size_t front_bytes() const override;
  std::optional<HttpResponse> OnFront(std::string_view front, size_t rest,
                                      std::vector<std::span<std::byte>>& destinations) override;
  void OnBody() override;
  void Respond(std::optional<InferenceResponse> response, bool final) override;

 private:
  Result<HttpInferRequest> Read(std::string_view front, size_t rest);

  Setup setup_;
  int64_t received_ns_ = 0;                    // 0 while nothing is traced
  std::shared_ptr<RequestTrace> trace_;        // shared with the request
  std::unique_ptr<InferenceRequest> request_;  // until it is handed to the servable
  std::string_view sequence_header_;           // in the exchange's head
  std::unique_ptr<HttpBinarySequence> sequence_;
  std::string id_;
  HttpOutputFormat format_;
  // Owned by the request's owner while the request runs.
  std::shared_ptr<InferCall> self_;
  bool answered_ = false;
};

}  // namespace braid
