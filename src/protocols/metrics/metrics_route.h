// MetricsRoute: GET /metrics, in Prometheus' text format. One route may be served at several ports.
//
//   MetricsRoute route;
//   route.Enable([&] { return MetricsText(collectors); });
//
// Scrapes never run concurrently.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>

#include "base/mutex.h"
#include "protocols/http/protocol.h"

namespace braid {

class MetricsRoute final : public HttpProtocol {
 public:
  static std::span<const HttpRoute> Routes();

  // Enables the route, which answers with the result of `text`. Before this call the path is unknown. Any
  // thread.
  void Enable(std::function<std::string()> text);

  std::optional<HttpService::Answer> Answer(HttpProtocolHost& host,
                                            const std::shared_ptr<HttpExchange>& exchange) override;

 private:
  HttpResponse Metrics(HttpRequest& request);

  Mutex mutex_;
  std::function<std::string()> text_ BRAID_GUARDED_BY(mutex_);  // empty until enabled
};

}  // namespace braid
