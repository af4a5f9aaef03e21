#include "protocols/openapi/openapi_route.h"

#include <string_view>
#include <utility>

#include "protocols/openapi/document.h"

namespace braid {

Api OpenApiRoute::ApiOf(const ApiSet& served) {
  for (const Api api : {Api::kMetadata, Api::kMetrics}) {
    if (served.Has(api)) return api;
  }
  return Api::kHealth;
}

void OpenApiRoute::Publish(Api api, std::string text) {
  document_.Set(std::make_shared<const Document>(Document{api, std::move(text)}));
}

std::optional<std::variant<HttpResponse, HttpProtocolRoute>> OpenApiRoute::Find(
    const HttpExchange& exchange) {
  const HttpHead& head = exchange.head();
  const std::string_view target = ToStd(head.target());
  if (target.substr(0, target.find('?')) != kOpenApiPath) return std::nullopt;
  std::shared_ptr<const Document> document = document_.Get();
  if (document == nullptr) return std::nullopt;
  if (RouteMethod(head) != "GET") return ErrorResponse(405, "Method Not Allowed");
  return HttpProtocolRoute{{document->api, std::nullopt},
                           [document = std::move(document)](const std::shared_ptr<HttpExchange>&) {
                             return HttpService::Answer(JsonResponse(document->text));
                           }};
}

}  // namespace braid
