// HttpListener: listens on a port and serves HTTP/1.1 with a few io threads.
//
//   BRAID_ASSIGN_OR_RETURN(auto listener, HttpListener::Start(options, service));
//   ... listener->port() ...
//   listener->Shutdown(SteadyNowNs() + 5'000'000'000);
//
// Connections go to the threads in turn (Acceptor). Supports keep-alive, pipelining (responses in
// order), 100-continue, chunked and compressed requests, with the limits and timeouts of HttpListenerOptions.
// Errors that the core detects are answered as {"error":"text"}.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/status.h"
#include "protocols/http/exchange.h"
#include "protocols/http/options.h"

namespace braid {

class Acceptor;
class IoThread;

class HttpListener {
 public:
  // Starts to listen and serve. `service` outlives the listener.
  // Errors: those of ListenOn() and the system.
  static Result<std::unique_ptr<HttpListener>> Start(const HttpListenerOptions& options,
                                                     HttpService& service);
  // Shuts down at once unless Shutdown() was called.
  ~HttpListener();

  // 0 if it listens on Unix sockets only.
  uint16_t port() const { return port_; }
  size_t connection_count() const { return connection_count_.load(std::memory_order_relaxed); }

  // Stops to accept, closes idle connections, and waits for running requests until `deadline_ns`
  // (SteadyNowNs() time). Then cancels the remaining requests and disconnects their clients. Later responses
  // are dropped. Blocks; do not call it on an io thread.
  void Shutdown(int64_t deadline_ns);

 private:
  HttpListener() = default;

  uint16_t port_ = 0;
  std::atomic<size_t> connection_count_{0};
  std::vector<std::shared_ptr<IoThread>> threads_;  // shared with connections; see IoThread
  std::shared_ptr<Acceptor> acceptor_;              // shared with the first thread's loop
  bool down_ = false;
};

}  // namespace braid
