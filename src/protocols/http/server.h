// HttpServer: an HTTP server for protocols that share its port, behind one gate.
//
//   HttpServer::Options options;
//   options.port = 8000;
//   BRAID_ASSIGN_OR_RETURN(auto server, HttpServer::Start(access, control, {&tfs, &kserve}, options));
//   ...
//   server->Shutdown(SteadyNowNs() + 30'000'000'000);
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "protocols/access/access_policy.h"
#include "protocols/net/client_limits.h"
#include "protocols/net/control_pool.h"
#include "protocols/net/listening_socket.h"
#include "protocols/net/tls.h"
#include "serving/model_control.h"
#include "serving/on_demand_loader.h"

namespace braid {

class HttpProtocol;

class ThreadWatch;

class HttpServer {
 public:
  struct Options {
    std::string address = "0.0.0.0";
    uint16_t port = 8000;  // 0: the system chooses
    bool reuse_port = false;
    uint32_t unix_socket_mode = kUnixSocketMode;
    int threads = 0;  // 0: HalfOfCores()
    // The limit of a body.
    size_t max_input_bytes = size_t{64} * 1024 * 1024;
    // The end of the error text for a larger body: how to raise the limit.
    std::string body_limit_hint = " Use --http-max-input-size to increase the limit.";
    // See HttpGate.
    std::vector<std::string> allowed_origins;
    std::vector<std::string> allowed_hosts;
    // A body slower than 64 KiB in this time ends its connection.
    int body_timeout_ms = 60000;
    // The limits of a request's head. The limit on fields includes those after a chunked body.
    size_t max_header_bytes = size_t{32} << 10;
    size_t max_header_fields = 256;
    int max_connection_idle_ms = 600000;
    std::shared_ptr<ClientLimits> limits = nullptr;  // shared with the other ports; null: its own
    std::shared_ptr<TlsSource> tls = nullptr;        // see HttpListenerOptions
    // Threads for calls that block, such as those of the model repository.
    int control_threads = 4;
    // Threads that read large bodies and write large responses; 0: the io threads do this.
    int large_threads = HalfOfCores();
    std::string thread_name = "brd-http";
    // Loads models on demand; outlives the server; null: requests for models that are not loaded fail.
    OnDemandLoader* on_demand = nullptr;
    ThreadWatch* thread_watch = nullptr;  // reports io threads that hang; outlives the server; null: none
  };

  // Starts to listen and serve. `access`, `control` and the protocols outlive the server. The first protocol
  // that knows a path answers; an unknown path is 404.
  // Errors: as HttpListener::Start().
  static Result<std::unique_ptr<HttpServer>> Start(const AccessPolicy& access, const ModelControl& control,
                                                   std::vector<HttpProtocol*> protocols,
                                                   const Options& options);
  ~HttpServer();

  // 0 if it listens on Unix sockets only.
  uint16_t bound_port() const;
  // The number of open connections. Any thread.
  size_t connection_count() const;

  // From now on refuses requests with UNAVAILABLE "Server exiting", except health, metrics and
  // HttpRouteKind::kAtAnyTime. Any thread.
  void Drain();
  // Waits for running requests until `deadline_ns` (SteadyNowNs() time), then cancels the rest. Blocks, also
  // until a load that was requested over HTTP has returned.
  void Shutdown(int64_t deadline_ns);

 private:
  class Service;
  explicit HttpServer(std::unique_ptr<Service> service);
  std::unique_ptr<Service> service_;
};

}  // namespace braid
