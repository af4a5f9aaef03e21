// HelloRoutes: GET /hello/{m}, which says whether a model is ready.
#pragma once

#include <optional>
#include <span>

#include "protocols/http/protocol.h"
#include "serving/catalog.h"

namespace braid {

class HelloRoutes final : public HttpProtocol {
 public:
  // `catalog` outlives the protocol.
  explicit HelloRoutes(Catalog& catalog) : catalog_(catalog) {}

  static std::span<const HttpRoute> Routes();
  std::optional<HttpService::Answer> Answer(HttpProtocolHost& host,
                                            const std::shared_ptr<HttpExchange>& exchange) override;

 private:
  HttpResponse Hello(HttpRequest& request);

  Catalog& catalog_;
};

}  // namespace braid
