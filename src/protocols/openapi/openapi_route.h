// OpenApiRoute: GET /openapi.json, the description of one port, and GET /, a page for a first look.
//
//   OpenApiRoute route;
//   route.Publish(Api::kMetadata, description);   // OpenApiDocument()
//   route.LeadToConsole({"http", "0.0.0.0:8002"});
//
// The description belongs to the group metadata, as it tells what GET /v2 tells; at a port that serves no metadata, to the first of
// metrics and health that it serves (OpenApiRoute::ApiOf).
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
  // Which group the document is of, at a port that serves `served`.
  static Api ApiOf(const ApiSet& served);

  // From here on there are such routes, or their text is another one; before, the paths are as unknown as any. Any
  // thread.
  void Publish(Api api, PortDescription description);
  // From here on the page names the console. Any thread.
  void LeadToConsole(ConsolePort port);

  std::optional<HttpService::Answer> Answer(HttpProtocolHost& host,
                                            const std::shared_ptr<HttpExchange>& exchange) override;

 private:
  struct Document {
    HttpRoute route;
    PortDescription description;
  };

  HttpResponse Description(HttpRequest& request);

  Published<Document> document_{nullptr};    // null until it is published
  Published<ConsolePort> console_{nullptr};  // null without one
};

}  // namespace braid
