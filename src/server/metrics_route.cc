#include "server/metrics_route.h"

#include <string_view>

#include "protocols/metrics/ovms_collectors.h"

namespace braid {

void MetricsRoute::Enable(MetricsCollector collect) {
  MutexLock lock(mutex_);
  collect_ = std::move(collect);
}

std::optional<std::variant<HttpResponse, HttpProtocolRoute>> MetricsRoute::Find(
    const HttpExchange& exchange) {
  const HttpHead& head = exchange.head();
  const std::string_view target = ToStd(head.target());
  if (target.substr(0, target.find('?')) != "/metrics") return std::nullopt;
  {
    MutexLock lock(mutex_);
    if (!collect_) return std::nullopt;
  }
  if (RouteMethod(head) != "GET") return ErrorResponse(405, "Method Not Allowed");
  return HttpProtocolRoute{
      Api::kMetrics, [this](const std::shared_ptr<HttpExchange>&) { return HttpService::Answer(Answer()); }};
}

HttpResponse MetricsRoute::Answer() {
  HttpResponse response;
  response.content_type = "text/plain; charset=utf-8";
  MutexLock lock(mutex_);
  response.body = OvmsMetricsText(collect_);
  return response;
}

}  // namespace braid
