// MetricsRoute: GET /metrics, in the text format of Prometheus. One may be served at several ports.
//
//   MetricsRoute route;
//   route.Enable([&] { return MetricsText(collectors); });
//
// Two scrapes never run at once.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <variant>

#include "base/mutex.h"
#include "protocols/http/protocol.h"

namespace braid {

class MetricsRoute final : public HttpProtocol {
 public:
  // From here on there is such a route, which answers what `text` returns; before, the path is as unknown as
  // any. Any thread.
  void Enable(std::function<std::string()> text);

  void Attach(HttpProtocolHost&) override {}
  std::optional<std::variant<HttpResponse, HttpProtocolRoute>> Find(const HttpExchange& exchange) override;

 private:
  HttpResponse Answer();

  Mutex mutex_;
  std::function<std::string()> text_ BRAID_GUARDED_BY(mutex_);  // empty until it is enabled
};

}  // namespace braid
