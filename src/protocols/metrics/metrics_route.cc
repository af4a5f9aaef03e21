#include "protocols/metrics/metrics_route.h"

#include <string_view>

namespace braid {

void MetricsRoute::Enable(std::function<std::string()> text) {
  MutexLock lock(mutex_);
  text_ = std::move(text);
}

std::optional<std::variant<HttpResponse, HttpProtocolRoute>> MetricsRoute::Find(
    const HttpExchange& exchange) {
  const HttpHead& head = exchange.head();
  const std::string_view target = ToStd(head.target());
  if (target.substr(0, target.find('?')) != "/metrics") return std::nullopt;
  {
    MutexLock lock(mutex_);
    if (!text_) return std::nullopt;
  }
  if (RouteMethod(head) != "GET") return ErrorResponse(405, "Method Not Allowed");
  // They name all models.
  return HttpProtocolRoute{{Api::kMetrics, ""}, [this](const std::shared_ptr<HttpExchange>&) {
                             return HttpService::Answer(Answer());
                           }};
}

HttpResponse MetricsRoute::Answer() {
  HttpResponse response;
  response.content_type = "text/plain; charset=utf-8";
  MutexLock lock(mutex_);
  response.body = text_();
  return response;
}

}  // namespace braid
