// A protocol that an HttpServer serves: KServe v2, TensorFlow Serving, metrics. Several share one port.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <variant>

#include "base/status.h"
#include "protocols/access/access_control.h"
#include "protocols/http/exchange.h"

namespace braid {

// What the server does for its protocols. Any thread.
class HttpProtocolHost {
 public:
  // HttpExchange::io_thread() stays below this.
  virtual size_t io_threads() const = 0;
  // Runs `task` on a thread for calls that block. False when too many wait.
  virtual bool RunBlocking(std::function<void()> task) = 0;
  // Whether the server is shutting down.
  virtual bool exiting() const = 0;
  // Whether the access policy would let the sender of this request do something else, too. Counts as no refusal. On the
  // exchange's io thread.
  virtual bool Allows(const HttpExchange& exchange, const Rights::Subject& subject) = 0;
  // For a request that names more than its path does, or is asked about later. On the exchange's io thread. Errors: as
  // AccessPolicy::Authorize().
  virtual Result<Permit> Authorize(const HttpExchange& exchange, const Rights::Subject& subject) = 0;

 protected:
  ~HttpProtocolHost() = default;
};

// A route that a request has found. The server asks the access policy about `subject`, and whether it serves
// at all, before it calls `answer` on the request's io thread.
struct HttpProtocolRoute {
  Rights::Subject subject;  // texts as long as what Find() has found: until the answer
  std::function<HttpService::Answer(const std::shared_ptr<HttpExchange>&)> answer;
  // Answered also while the server starts and while it exits.
  bool at_any_time = false;
};

// Belongs to one server, and outlives it.
class HttpProtocol {
 public:
  virtual ~HttpProtocol() = default;

  // Before the server listens; `host` lives as long as the server.
  virtual void Attach(HttpProtocolHost& host) = 0;

  // Nothing for a path that is not this protocol's; a response for one that is and that has no such route.
  // The server asks its protocols in their order. On the exchange's io thread, which does nothing between
  // this and the route's answer.
  virtual std::optional<std::variant<HttpResponse, HttpProtocolRoute>> Find(const HttpExchange& exchange) = 0;
};

}  // namespace braid
