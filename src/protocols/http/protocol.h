// HttpProtocol: a protocol that an HttpServer serves, such as KServe v2, TensorFlow Serving or metrics.
// Several share one port.
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

// The services of a server to its protocols. Lives as long as the server. Any thread may call it, but calls
// with an exchange come from the exchange's io thread.
class HttpProtocolHost {
 public:
  // Calls the request's route if the access policy permits the request and the server is serving. Returns the
  // route's answer or a refusal. REQUIRES: request.route is set.
  virtual HttpService::Answer Dispatch(HttpProtocol& protocol, HttpRequest& request) = 0;
  // Runs `task` on a thread for calls that block. Returns false if too many tasks wait.
  virtual bool RunBlocking(std::function<void()> task) = 0;
  // Whether the server is shutting down.
  virtual bool exiting() const = 0;
  // Whether the access policy would permit the sender of this request something else as well. Does not count
  // as a refusal.
  virtual bool Allows(const HttpExchange& exchange, const Rights::Subject& subject) = 0;
  // Authorizes a request that names more than its path does, or that is checked again later. Errors: as
  // AccessPolicy::Authorize().
  virtual Result<Authorization> Authorize(const HttpExchange& exchange, const Rights::Subject& subject) = 0;

 protected:
  ~HttpProtocolHost() = default;
};

// A protocol outlives its servers. A protocol with state for each io thread belongs to one server.
class HttpProtocol {
 public:
  virtual ~HttpProtocol() = default;

  // Called before the server listens. HttpExchange::io_thread() is always less than this.
  virtual void SetIoThreads(size_t) {}

  // Returns nullopt for a path of another protocol; the server asks its protocols in order. Called on the
  // exchange's io thread.
  virtual std::optional<HttpService::Answer> Answer(HttpProtocolHost& host,
                                                    const std::shared_ptr<HttpExchange>& exchange) = 0;

  // See HttpService. Called for the requests of all protocols; the others' stay as they are.
  virtual HttpResponse Shape(const HttpHead&, HttpResponse refusal) { return refusal; }
};

}  // namespace braid
