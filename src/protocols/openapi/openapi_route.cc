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

void OpenApiRoute::Publish(Api api, PortDescription description) {
  document_.Set(std::make_shared<const Document>(
      Document{{"GET", kOpenApiPath, api, HttpScope::kNamed, kAnsweredBy<&OpenApiRoute::Description>},
               std::move(description)}));
}

void OpenApiRoute::LeadToConsole(ConsolePort port) {
  console_.Set(std::make_shared<const ConsolePort>(std::move(port)));
}

std::optional<HttpService::Answer> OpenApiRoute::Answer(HttpProtocolHost& host,
                                                        const std::shared_ptr<HttpExchange>& exchange) {
  const HttpHead& head = exchange->head();
  const std::string_view path = PathOf(head);
  if (path != kOpenApiPath && path != "/") return std::nullopt;
  const std::shared_ptr<const Document> document = document_.Get();
  if (document == nullptr) return std::nullopt;
  if (path == kOpenApiPath) {
    HttpRequest request(host, exchange, {&document->route, 1});
    if (request.found != HttpMatch::Found::kRoute) return ErrorResponse(405, "Method Not Allowed");
    return host.Dispatch(*this, request);
  }
  if (RouteMethod(head) != "GET") return std::nullopt;
  const auto console = console_.Get();
  const bool html = FindHeader(head, "Accept").value_or("").find("text/html") != std::string_view::npos;
  return FrontPage(document->description,
                   console ? ConsoleUrl(*console, FindHeader(head, "Host").value_or("")) : "", html,
                   [&](Api api) {
                     return host.Allows(*exchange, {api, std::nullopt});
                   });
}

HttpResponse OpenApiRoute::Description(HttpRequest&) {
  return JsonResponse(document_.Get()->description.document);
}

}  // namespace braid
