// MetricsRoute: GET /metrics, in the text format of Prometheus. One may be served at several ports.
//
//   MetricsRoute route;
//   route.Enable([&] { return MetricsText(collectors); });
//
// Two scrapes never run at once.
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

  // From here on there is such a route, which answers what `text` returns; before, the path is as unknown as
  // any. Any thread.
  void Enable(std::function<std::string()> text);

  std::optional<HttpService::Answer> Answer(HttpProtocolHost& host,
                                            const std::shared_ptr<HttpExchange>& exchange) override;

 private:
  HttpResponse Metrics(HttpRequest& request);

  Mutex mutex_;
  std::function<std::string()> text_ BRAID_GUARDED_BY(mutex_);  // empty until it is enabled
};

}  // namespace braid
