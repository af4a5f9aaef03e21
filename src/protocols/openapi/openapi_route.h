// OpenApiRoute: GET /openapi.json, the description of one port, and GET /, an overview page.
//
//   OpenApiRoute route;
//   route.Publish(Api::kMetadata, description);   // OpenApiDocument()
//   route.LeadToConsole({"http", "0.0.0.0:8002"});
//
// The description belongs to the API group metadata, like GET /v2. At a port without metadata, it belongs to
// the first of metrics and health that the port serves (OpenApiRoute::ApiOf).
#pragma once

#include <memory>
#include <optional>

#include "base/published.h"
#include "protocols/access/api.h"
#include "protocols/http/protocol.h"
#include "protocols/openapi/document.h"
#include "protocols/openapi/front_page.h"

namespace braid {

class OpenApiRoute final : public HttpProtocol {
 public:
  // Returns the document's group at a port that serves `served`.
  static Api ApiOf(const ApiSet& served);

  // Enables the routes, or replaces their text. Before the first call the paths are unknown. Any thread.
  void Publish(Api api, PortDescription description);
  // Adds a link to the console. Any thread.
  void LeadToConsole(ConsolePort port);

  std::optional<HttpService::Answer> Answer(HttpProtocolHost& host,
                                            const std::shared_ptr<HttpExchange>& exchange) override;

 private:
  struct Document {
    HttpRoute route;
    PortDescription description;
  };

  HttpResponse Description(HttpRequest& request);

  Published<Document> document_{nullptr};    // null until published
  Published<ConsolePort> console_{nullptr};  // null without one
};

}  // namespace braid
