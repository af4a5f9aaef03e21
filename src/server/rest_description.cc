#include "server/rest_description.h"

#include <utility>
#include <vector>

#include "protocols/kserve/http/service.h"
#include "protocols/metrics/metrics_route.h"
#include "protocols/openai/routes.h"
#include "protocols/openapi/document.h"
#include "protocols/openapi/parts.h"
#include "protocols/tfs/tfs_routes.h"

namespace braid {
Status DescribeRest(const RestProtocols& protocols, const AccessPolicy& access, bool has_tokens,
                    OpenApiRoute& route) {
  OpenApiOptions options{
      .version = BRAID_VERSION, .document_api = {}, .served = {}, .has_tokens = has_tokens};
  for (int api = 0; api < kApiCount; ++api) {
    if (access.serves(static_cast<Api>(api))) options.served.Add(static_cast<Api>(api));
  }
  options.document_api = OpenApiRoute::ApiOf(options.served);
  std::vector<OpenApiPart> parts{{OpenApiPartText("kserve"), KserveHttp::Routes()}};
  if (protocols.tensorflow_serving) {
    parts.push_back({OpenApiPartText("tensorflow_serving"), TfsRoutes::Routes()});
    parts.push_back({OpenApiPartText("openai"), OpenAiRoutes::DescribedRoutes()});
  }
  if (protocols.metrics) parts.push_back({OpenApiPartText("metrics"), MetricsRoute::Routes()});
  BRAID_ASSIGN_OR_RETURN(PortDescription description, OpenApiDocument(options, parts));
  route.Publish(options.document_api, std::move(description));
  return OkStatus();
}

}  // namespace braid
