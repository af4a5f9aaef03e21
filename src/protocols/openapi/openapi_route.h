// OpenApiRoute: GET /openapi.json, the description of one port.
//
//   OpenApiRoute route;
//   route.Publish(Api::kMetadata, text);   // OpenApiDocument()
//
// It belongs to the group metadata, as it tells what GET /v2 tells; at a port that serves no metadata, to the first of
// metrics and health that it serves (OpenApiRoute::ApiOf).
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <variant>

#include "base/published.h"
#include "protocols/access/api.h"
#include "protocols/http/protocol.h"

namespace braid {

class OpenApiRoute final : public HttpProtocol {
 public:
  // Which group the document is of, at a port that serves `served`.
  static Api ApiOf(const ApiSet& served);

  // From here on there is such a route, or its text is another one; before, the path is as unknown as any. Any
  // thread.
  void Publish(Api api, std::string text);

  void Attach(HttpProtocolHost&) override {}
  std::optional<std::variant<HttpResponse, HttpProtocolRoute>> Find(const HttpExchange& exchange) override;

 private:
  struct Document {
    Api api;
    std::string text;
  };

  Published<Document> document_{nullptr};  // null until it is published
};

}  // namespace braid
