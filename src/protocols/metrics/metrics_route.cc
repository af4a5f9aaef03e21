#include "protocols/metrics/metrics_route.h"

namespace braid {

void MetricsRoute::Enable(std::function<std::string()> text) {
  MutexLock lock(mutex_);
  text_ = std::move(text);
}

std::span<const HttpRoute> MetricsRoute::Routes() {
  // The metrics name all models.
  static constexpr HttpRoute kRoutes[] = {
      {"GET", "/metrics", Api::kMetrics, HttpScope::kAll, kAnsweredBy<&MetricsRoute::Metrics>}};
  return kRoutes;
}

std::optional<HttpService::Answer> MetricsRoute::Answer(HttpProtocolHost& host,
                                                        const std::shared_ptr<HttpExchange>& exchange) {
  HttpRequest request(host, exchange, Routes());
  if (request.found == HttpMatch::Found::kNoSuchPath) return std::nullopt;
  {
    MutexLock lock(mutex_);
    if (!text_) return std::nullopt;
  }
  if (request.found != HttpMatch::Found::kRoute) return ErrorResponse(405, "Method Not Allowed");
  return host.Dispatch(*this, request);
}

HttpResponse MetricsRoute::Metrics(HttpRequest&) {
  HttpResponse response;
  response.content_type = "text/plain; charset=utf-8";
  MutexLock lock(mutex_);
  response.body = text_();
  return response;
}

}  // namespace braid
