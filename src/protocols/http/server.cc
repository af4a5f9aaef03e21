#include "protocols/http/server.h"

#include <algorithm>
#include <atomic>
#include <optional>
#include <vector>

#include "base/clock.h"
#include "protocols/http/awaiting_call.h"
#include "protocols/http/gate.h"
#include "protocols/http/listener.h"
#include "protocols/http/protocol.h"
#include "protocols/net/control_pool.h"

namespace braid {
namespace {

constexpr size_t kMaxWaitingControlCalls = 256;
constexpr size_t kMaxWaitingFronts = 4096;

class HttpSender final : public AccessPolicy::Sender {
 public:
  explicit HttpSender(const HttpExchange& exchange) : exchange_(exchange) {}

  bool Shows(std::string_view header, std::string_view secret) const override {
    const auto value = FindHeader(exchange_.head(), header);
    return value && AccessPolicy::SameSecret(*value, secret);
  }
  Credentials credentials() const override {
    return {FindHeader(exchange_.head(), "Authorization").value_or(""), exchange_.certificate_identity()};
  }

 private:
  const HttpExchange& exchange_;
};

}  // namespace

class HttpServer::Service final : public HttpService, private HttpProtocolHost {
 public:
  Service(const AccessPolicy& access, const ModelControl& control, std::vector<HttpProtocol*> protocols,
          const Options& options)
      : control_(control),
        protocols_(std::move(protocols)),
        io_threads_(static_cast<size_t>(options.threads > 0 ? options.threads : HalfOfCores())),
        on_demand_(options.on_demand),
        limits_(options.limits != nullptr ? options.limits : std::make_shared<ClientLimits>()),
        access_(access),
        readers_(io_threads_, access.Reader()),
        gate_({options.allowed_origins, options.allowed_hosts, IsLoopback(options.address)}),
        control_pool_(options.control_threads, options.thread_name + "-ctl", kMaxWaitingControlCalls) {
    if (options.large_threads > 0) {
      large_pool_ = std::make_shared<ControlPool>(options.large_threads, options.thread_name + "-read",
                                                  kMaxWaitingFronts, ControlPool::Priority::kLow);
    }
    for (HttpProtocol* protocol : protocols_) protocol->SetIoThreads(io_threads_);
  }

  Status Start(const Options& options) {
    HttpListenerOptions listener;
    listener.address = options.address;
    listener.port = options.port;
    listener.reuse_port = options.reuse_port;
    listener.unix_socket_mode = options.unix_socket_mode;
    listener.threads = static_cast<int>(io_threads_);
    listener.thread_name = options.thread_name;
    listener.thread_watch = options.thread_watch;
    listener.max_body_bytes = options.max_input_bytes;
    listener.body_timeout = std::chrono::milliseconds(options.body_timeout_ms);
    listener.idle_timeout = std::chrono::milliseconds(options.max_connection_idle_ms);
    listener.max_header_bytes = options.max_header_bytes;
    listener.max_header_fields = options.max_header_fields;
    listener.limits = limits_;
    listener.tls = options.tls;
    listener.large_pool = large_pool_;
    listener.body_limit_hint = options.body_limit_hint;
    BRAID_ASSIGN_OR_RETURN(listener_, HttpListener::Start(listener, *this));
    return OkStatus();
  }

  uint16_t port() const { return listener_->port(); }
  size_t connection_count() const { return listener_->connection_count(); }

  void Drain() { exiting_.store(true, std::memory_order_relaxed); }
  void Shutdown(int64_t deadline_ns) {
    Drain();
    if (listener_) listener_->Shutdown(deadline_ns);
    control_pool_.Stop();
    if (large_pool_) large_pool_->Stop();
  }

  Answer OnRequest(const std::shared_ptr<HttpExchange>& exchange) override {
    if (auto refusal = gate_.Refuse(exchange->head(), exchange->over_unix_socket()))
      return std::move(*refusal);
    for (HttpProtocol* protocol : protocols_) {
      if (auto answer = protocol->Answer(*this, exchange)) return std::move(*answer);
    }
    return ErrorResponse(404, "Not Found");
  }
  HttpResponse Shape(const HttpHead& head, HttpResponse refusal) override {
    for (HttpProtocol* protocol : protocols_) refusal = protocol->Shape(head, std::move(refusal));
    return refusal;
  }

 private:
  Answer Dispatch(HttpProtocol& protocol, HttpRequest& request) override {
    if (auto refusal = Refuse(*request.exchange, *request.route, request.Subject()))
      return std::move(*refusal);
    const bool may_wait = on_demand_ != nullptr && request.model && AwaitingCall::Loads(*request.route);
    if (!may_wait) return request.route->answer(protocol, request);
    HttpMatch match = request;  // the route takes parts of it
    Answer answer = request.route->answer(protocol, request);
    const auto* refusal = std::get_if<HttpResponse>(&answer);
    if (refusal == nullptr || refusal->status != 404) return answer;
    // The model may have been unloaded, and even loaded again, since the answer was made.
    HttpProtocolHost& host = *this;
    return std::make_shared<AwaitingCall>(host, protocol, request.exchange, std::move(match), *on_demand_);
  }
  // Returns the refusal of the request, if any.
  std::optional<HttpResponse> Refuse(const HttpExchange& exchange, const HttpRoute& route,
                                     const Rights::Subject& subject) {
    const Status allowed = access_.Check(readers_[exchange.io_thread()], HttpSender(exchange), subject);
    if (!allowed.ok()) return ErrorResponse(allowed);
    if (route.kind == HttpRouteKind::kAtAnyTime || route.api == Api::kHealth || route.api == Api::kMetrics)
      return std::nullopt;
    if (exiting()) return ErrorResponse(UnavailableError("Server exiting"));
    if (!control_.serving()) return ErrorResponse(UnavailableError("Server not ready"));
    if (route.api == Api::kInference) {
      if (Status admitted = limits_->budget.Admit(); !admitted.ok()) return ErrorResponse(admitted);
    }
    return std::nullopt;
  }

  bool RunBlocking(std::function<void()> task) override { return control_pool_.Submit(std::move(task)); }
  bool exiting() const override { return exiting_.load(std::memory_order_relaxed); }
  bool Allows(const HttpExchange& exchange, const Rights::Subject& subject) override {
    return access_.Allows(readers_[exchange.io_thread()], HttpSender(exchange), subject);
  }
  Result<Authorization> Authorize(const HttpExchange& exchange, const Rights::Subject& subject) override {
    return access_.Authorize(readers_[exchange.io_thread()], HttpSender(exchange), subject);
  }

  const ModelControl& control_;
  const std::vector<HttpProtocol*> protocols_;
  const size_t io_threads_;
  OnDemandLoader* const on_demand_;
  const std::shared_ptr<ClientLimits> limits_;  // shared with the other ports
  const AccessPolicy& access_;
  std::vector<AccessReader> readers_;  // each used by its io thread alone
  const HttpGate gate_;
  std::atomic<bool> exiting_{false};
  ControlPool control_pool_;
  std::shared_ptr<ControlPool> large_pool_;  // shared with the connections; null: none
  std::unique_ptr<HttpListener> listener_;
};

HttpServer::HttpServer(std::unique_ptr<Service> service) : service_(std::move(service)) {}

HttpServer::~HttpServer() { Shutdown(SteadyNowNs()); }

Result<std::unique_ptr<HttpServer>> HttpServer::Start(const AccessPolicy& access, const ModelControl& control,
                                                      std::vector<HttpProtocol*> protocols,
                                                      const Options& options) {
  auto service = std::make_unique<Service>(access, control, std::move(protocols), options);
  BRAID_RETURN_IF_ERROR(service->Start(options));
  return std::unique_ptr<HttpServer>(new HttpServer(std::move(service)));
}

uint16_t HttpServer::bound_port() const { return service_->port(); }

size_t HttpServer::connection_count() const { return service_->connection_count(); }

void HttpServer::Drain() { service_->Drain(); }

void HttpServer::Shutdown(int64_t deadline_ns) { service_->Shutdown(deadline_ns); }

}  // namespace braid
