// OpenAiRoutes: OpenAI's API over HTTP, under /v1, /v3 and /v3/v1.
//
//   OpenAiRoutes openai(context, &tfs);   // comes before TensorFlow Serving's routes, which answer all of /v1
//
// GET /v1/models/{name} belongs to TensorFlow Serving's API too. One object answers both: the states of the
// model's versions, and OpenAI's fields.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "protocols/http/protocol.h"
#include "protocols/inference/context.h"
#include "protocols/openai/request.h"

namespace braid {

class OpenAiRoutes final : public HttpProtocol {
 public:
  // `context` outlives this, and so does `tfs`, which answers GET /v1/models/{name} at the same port; null: none.
  OpenAiRoutes(ProtocolContext& context, HttpProtocol* tfs);
  ~OpenAiRoutes() override;

  static std::span<const HttpRoute> Routes();
  // Those that the document of the port describes (protocols/openapi).
  static std::span<const HttpRoute> DescribedRoutes();

  void SetIoThreads(size_t count) override;
  std::optional<HttpService::Answer> Answer(HttpProtocolHost& host,
                                            const std::shared_ptr<HttpExchange>& exchange) override;
  HttpResponse Shape(const HttpHead& head, HttpResponse refusal) override;

 private:
  HttpResponse Models(HttpRequest& request);
  HttpService::Answer Model(HttpRequest& request);
  HttpService::Answer Chat(HttpRequest& request);
  HttpService::Answer Completion(HttpRequest& request);
  HttpService::Answer Embedding(HttpRequest& request);
  HttpService::Answer Post(HttpRequest& request, OpenAiRoute route);

  ProtocolContext& context_;
  HttpProtocol* const tfs_;
  std::vector<CatalogReader> readers_;  // each used only by its I/O thread
};

}  // namespace braid
