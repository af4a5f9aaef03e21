// More routes on the port of an HttpServer: a protocol that shares it, such as TensorFlow Serving's.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <variant>

#include "base/status.h"
#include "protocols/http/exchange.h"
#include "protocols/kserve/access_policy.h"
#include "serving/parameters.h"

namespace braid {

// What the server does for its extensions.
class HttpExtensionHost {
 public:
  // HttpExchange::io_thread() stays below this.
  virtual size_t io_threads() const = 0;
  // Runs `task` on a thread for calls that block. False when too many wait. Any thread.
  virtual bool RunBlocking(std::function<void()> task) = 0;
  // Adds the headers that become parameters of a request. Errors: INVALID_ARGUMENT for one with the name of a
  // reserved parameter. Any thread.
  virtual Status ForwardHeaders(const HttpHead& head, Parameters& parameters) const = 0;

 protected:
  ~HttpExtensionHost() = default;
};

// A route that a request has found. The server checks the access policy of `api`, and whether it serves at
// all, before it calls `answer` on the request's io thread.
struct HttpExtensionRoute {
  Api api;
  std::function<HttpService::Answer(const std::shared_ptr<HttpExchange>&)> answer;
};

// Belongs to one server, and outlives it.
class HttpExtension {
 public:
  virtual ~HttpExtension() = default;

  // Before the server listens; `host` lives as long as the server.
  virtual void Attach(HttpExtensionHost& host) = 0;

  // Nothing for a path that is not this extension's; a response for one that is and that has no such route.
  // Asked in the order of the extensions, before the server's own routes. On an io thread, several at once.
  virtual std::optional<std::variant<HttpResponse, HttpExtensionRoute>> Find(const HttpHead& head) = 0;
};

}  // namespace braid
