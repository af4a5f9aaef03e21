// MetricsRoute: GET /metrics on the REST port, where OpenVINO Model Server has it.
#pragma once

#include <optional>
#include <variant>

#include "base/mutex.h"
#include "protocols/http/protocol.h"
#include "protocols/metrics/collectors.h"

namespace braid {

class MetricsRoute final : public HttpProtocol {
 public:
  // From here on there is such a route; before, the path is as unknown as any. Any thread.
  void Enable(MetricsCollector collect);

  void Attach(HttpProtocolHost&) override {}
  std::optional<std::variant<HttpResponse, HttpProtocolRoute>> Find(const HttpExchange& exchange) override;

 private:
  HttpResponse Answer();

  Mutex mutex_;  // keeps scrapes apart

  MetricsCollector collect_ BRAID_GUARDED_BY(mutex_);  // empty until it is enabled
};

}  // namespace braid
