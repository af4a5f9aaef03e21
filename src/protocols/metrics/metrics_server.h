// MetricsServer: GET /metrics on a port of its own, in the text format of Prometheus.
//
//   MetricsServer::Options options;
//   options.collectors = {ModelMetrics(catalog), CpuMetrics()};
//   BRAID_ASSIGN_OR_RETURN(auto metrics, MetricsServer::Start(std::move(options)));
//
// Every scrape asks all collectors, in their order; two scrapes never run at once. A part of the server that
// has metrics (Python models' own ones, a pool) adds a collector to the list.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "protocols/http/message.h"
#include "protocols/metrics/collectors.h"
#include "protocols/net/tls.h"

namespace braid {

class MetricsServer {
 public:
  struct Options {
    std::string address = "0.0.0.0";
    uint16_t port = 0;  // 0: the system chooses
    std::vector<MetricsCollector> collectors;
    std::shared_ptr<TlsSource> tls = nullptr;  // see HttpListenerOptions
    // Why a request is not answered, if it is not; null: all are. On the server's thread.
    std::function<std::optional<HttpResponse>(const HttpHead&)> refuse;
  };

  // Listens and serves, with a thread "brd-metrics-0". What the collectors refer to outlives the server.
  static Result<std::unique_ptr<MetricsServer>> Start(Options options);
  ~MetricsServer();

  uint16_t bound_port() const;
  void Shutdown(int64_t deadline_ns);

 private:
  class Service;
  explicit MetricsServer(std::unique_ptr<Service> service);
  std::unique_ptr<Service> service_;
};

}  // namespace braid
