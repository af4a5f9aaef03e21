#include "protocols/metrics/metrics_server.h"

#include "base/clock.h"
#include "protocols/http/listener.h"

namespace braid {
namespace {

// Of its own, so that scrapes have room when clients of models have taken all of theirs.
constexpr size_t kMostConnections = 256;

}  // namespace

class MetricsServer::Service final : public HttpService {
 public:
  explicit Service(Options options) : options_(std::move(options)) {}

  Status Start() {
    HttpListenerOptions listener;
    listener.address = options_.address;
    listener.port = options_.port;
    listener.threads = 1;
    listener.thread_name = "brd-metrics";
    listener.max_body_bytes = 1024;
    listener.tls = options_.tls;
    listener.limits = std::make_shared<ClientLimits>(
        ClientLimits::Options{.connections = {kMostConnections, kMostConnections}, .memory_bytes = SIZE_MAX});
    BRAID_ASSIGN_OR_RETURN(listener_, HttpListener::Start(listener, *this));
    return OkStatus();
  }

  HttpListener& listener() { return *listener_; }

  // On the only io thread, which is what keeps scrapes apart.
  Answer OnRequest(const std::shared_ptr<HttpExchange>& exchange) override {
    const HttpHead& head = exchange->head();
    if (options_.refuse) {
      if (auto refusal = options_.refuse(head)) return std::move(*refusal);
    }
    const std::string_view target = ToStd(head.target());
    if (target.substr(0, target.find('?')) != "/metrics") return ErrorResponse(404, "Not Found");
    if (RouteMethod(head) != "GET") return ErrorResponse(405, "Method Not Allowed");
    MetricFamilies families;
    for (MetricsCollector& collect : options_.collectors) collect(families);
    HttpResponse response;
    response.content_type = "text/plain; charset=utf-8";
    response.body = MetricsText(families);
    return response;
  }

 private:
  Options options_;
  std::unique_ptr<HttpListener> listener_;
};

MetricsServer::MetricsServer(std::unique_ptr<Service> service) : service_(std::move(service)) {}

MetricsServer::~MetricsServer() { Shutdown(SteadyNowNs()); }

Result<std::unique_ptr<MetricsServer>> MetricsServer::Start(Options options) {
  auto service = std::make_unique<Service>(std::move(options));
  BRAID_RETURN_IF_ERROR(service->Start());
  return std::unique_ptr<MetricsServer>(new MetricsServer(std::move(service)));
}

uint16_t MetricsServer::bound_port() const { return service_->listener().port(); }

void MetricsServer::Shutdown(int64_t deadline_ns) { service_->listener().Shutdown(deadline_ns); }

}  // namespace braid
