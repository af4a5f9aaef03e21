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
  document_.Set(std::make_shared<const Document>(Document{api, std::move(description)}));
}

void OpenApiRoute::LeadToConsole(ConsolePort port) {
  console_.Set(std::make_shared<const ConsolePort>(std::move(port)));
}

std::optional<std::variant<HttpResponse, HttpProtocolRoute>> OpenApiRoute::Find(
    const HttpExchange& exchange) {
  const HttpHead& head = exchange.head();
  const std::string_view target = ToStd(head.target());
  const std::string_view path = target.substr(0, target.find('?'));
  if (path != kOpenApiPath && path != "/") return std::nullopt;
  std::shared_ptr<const Document> document = document_.Get();
  if (document == nullptr) return std::nullopt;
  if (path == "/") {
    if (RouteMethod(head) != "GET") return std::nullopt;
    const auto console = console_.Get();
    const bool html = FindHeader(head, "Accept").value_or("").find("text/html") != std::string_view::npos;
    return FrontPage(document->description,
                     console ? ConsoleUrl(*console, FindHeader(head, "Host").value_or("")) : "", html,
                     [&](Api api) {
                       return host_->Allows(exchange, {api, std::nullopt});
                     });
  }
  if (RouteMethod(head) != "GET") return ErrorResponse(405, "Method Not Allowed");
  return HttpProtocolRoute{{document->api, std::nullopt},
                           [document = std::move(document)](const std::shared_ptr<HttpExchange>&) {
                             return HttpService::Answer(JsonResponse(document->description.document));
                           }};
}

}  // namespace braid
