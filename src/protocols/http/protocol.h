// A protocol that an HttpServer serves: KServe v2, TensorFlow Serving, metrics. Several share one port.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>

#include "base/status.h"
#include "protocols/access/access_control.h"
#include "protocols/http/exchange.h"
#include "protocols/http/route.h"

namespace braid {

// The services of a server to its protocols. Lives as long as the server. Any thread may call it; calls that take an
// exchange come from its io thread.
class HttpProtocolHost {
 public:
  // Has the request's route answer: if the access policy allows it to the sender, and if the server serves. REQUIRES: the
  // request has found one.
  virtual HttpService::Answer Dispatch(HttpProtocol& protocol, HttpRequest& request) = 0;
  // Runs `task` on a thread for calls that block. False when too many wait.
  virtual bool RunBlocking(std::function<void()> task) = 0;
  // Whether the server is shutting down.
  virtual bool exiting() const = 0;
  // Whether the access policy would let the sender of this request do something else, too. Counts as no refusal.
  virtual bool Allows(const HttpExchange& exchange, const Rights::Subject& subject) = 0;
  // For a request that names more than its path does, or is asked about later. Errors: as AccessPolicy::Authorize().
  virtual Result<Authorization> Authorize(const HttpExchange& exchange, const Rights::Subject& subject) = 0;

 protected:
  ~HttpProtocolHost() = default;
};

// Outlives its servers. One that keeps something for each io thread belongs to one server.
class HttpProtocol {
 public:
  virtual ~HttpProtocol() = default;

  // Before the server listens: HttpExchange::io_thread() stays below this.
  virtual void SetIoThreads(size_t) {}

  // Nothing for a path that is not this protocol's; the server asks its protocols in their order. On the exchange's io
  // thread.
  virtual std::optional<HttpService::Answer> Answer(HttpProtocolHost& host,
                                                    const std::shared_ptr<HttpExchange>& exchange) = 0;
};

}  // namespace braid
