#include "protocols/hello/hello_routes.h"

namespace braid {

std::span<const HttpRoute> HelloRoutes::Routes() {
  static constexpr HttpRoute kRoutes[] = {
      {"GET", "/hello/{m}", Api::kHealth, HttpScope::kNamed, kAnsweredBy<&HelloRoutes::Hello>}};
  return kRoutes;
}

std::optional<HttpService::Answer> HelloRoutes::Answer(HttpProtocolHost& host,
                                                       const std::shared_ptr<HttpExchange>& exchange) {
  HttpRequest request(host, exchange, Routes());
  if (request.found == HttpMatch::Found::kNoSuchPath) return std::nullopt;
  if (request.found != HttpMatch::Found::kRoute) return ErrorResponse(405, "Method Not Allowed");
  return host.Dispatch(*this, request);
}

HttpResponse HelloRoutes::Hello(HttpRequest& request) {
  const bool ready = catalog_.Find(*request.model, -1).ok();
  return JsonResponse(ready ? R"({"hello": "ready"})" : R"({"hello": "not ready"})");
}

}  // namespace braid
