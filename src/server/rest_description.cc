#include "server/rest_description.h"

#include <utility>
#include <vector>

#include "protocols/kserve/http/routes.h"
#include "protocols/openapi/document.h"
#include "protocols/openapi/parts.h"
#include "protocols/tfs/http_paths.h"

namespace braid {
namespace {

// Whether a route has no other answer than an error, which says that this is not served. Such routes are not described.
bool OnlyRefuses(HttpAction action) { return action == HttpAction::kNamedRepository; }

OpenApiPart KservePart() {
  OpenApiPart part{OpenApiKservePart(), {}};
  for (const HttpRoute& route : HttpRoutes()) {
    if (!OnlyRefuses(route.action)) part.routes.push_back({route.method, route.pattern, route.api});
  }
  return part;
}

OpenApiPart TensorFlowServingPart() {
  OpenApiPart part{OpenApiTensorFlowServingPart(), {}};
  for (const TfsRoute& route : TfsHttpRoutes()) {
    if (route.action != TfsAction::kNotServed)
      part.routes.push_back({route.method, route.pattern, route.api});
  }
  return part;
}

}  // namespace

Status DescribeRest(const RestProtocols& protocols, const AccessPolicy& access, bool has_tokens,
                    OpenApiRoute& route) {
  OpenApiOptions options{
      .version = BRAID_VERSION, .document_api = {}, .served = {}, .has_tokens = has_tokens};
  for (int api = 0; api < kApiCount; ++api) {
    if (access.serves(static_cast<Api>(api))) options.served.Add(static_cast<Api>(api));
  }
  options.document_api = OpenApiRoute::ApiOf(options.served);
  std::vector<OpenApiPart> parts{KservePart()};
  if (protocols.tensorflow_serving) parts.push_back(TensorFlowServingPart());
  if (protocols.metrics) parts.push_back({OpenApiMetricsPart(), {{"GET", "/metrics", Api::kMetrics}}});
  BRAID_ASSIGN_OR_RETURN(PortDescription description, OpenApiDocument(options, parts));
  route.Publish(options.document_api, std::move(description));
  return OkStatus();
}

}  // namespace braid
