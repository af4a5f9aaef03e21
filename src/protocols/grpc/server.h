// GrpcServer: a gRPC server for protocols that share its port, with reflection.
//
//   GrpcServer::Options options;
//   options.port = 8001;
//   BRAID_ASSIGN_OR_RETURN(auto server, GrpcServer::Start({catalog, control, log, access}, {&kserve},
//   options));
//   ...
//   server->Shutdown(SteadyNowNs() + 30'000'000'000);
//
// Connections go in turn to `infer_threads` I/O threads ("brd-grpc-N"), which read them and run the first
// steps of calls. Long work runs on other threads, so that it does not delay inference or health checks.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/log.h"
#include "base/status.h"
#include "protocols/access/access_policy.h"
#include "protocols/net/client_limits.h"
#include "protocols/net/listening_socket.h"
#include "protocols/net/tls.h"
#include "serving/catalog.h"
#include "serving/model_control.h"

namespace braid {

class Acceptor;
struct GrpcServerState;
class GrpcProtocol;
class GrpcThread;
class ThreadWatch;

class GrpcServer {
 public:
  enum class Compression : unsigned char { kNone, kLow, kMedium, kHigh };

  struct Options {
    std::string address = "0.0.0.0";
    int port = 8001;          // 0: the system chooses; see bound_port()
    bool reuse_port = false;  // share the port with other processes
    uint32_t unix_socket_mode = kUnixSocketMode;
    int infer_threads = 0;  // 0: half as many as cores

    // The limit of one received message, after inflation.
    size_t max_input_bytes = size_t{64} * 1024 * 1024;
    int max_concurrent_streams = 1024;   // of one connection
    int max_metadata_bytes = 32 * 1024;  // of one call
    size_t max_metadata_fields = 256;
    int max_resets_per_second = 200;  // of calls of one connection; a burst may have five times as many
    // Time from a connection to its first bytes of HTTP/2, including the TLS handshake.
    int handshake_timeout_ms = 30000;
    // A message slower than 64 KiB in this time ends its call.
    int message_timeout_ms = 60000;

    std::shared_ptr<TlsSource> tls =
        nullptr;  // for the protocol "h2"; shared with the code that reloads its files; null: no TLS

    Compression infer_response_compression = Compression::kNone;

    int keepalive_time_ms = 7200000;
    int keepalive_timeout_ms = 20000;
    bool keepalive_permit_without_calls = false;
    int http2_max_pings_without_data = 2;
    int http2_min_recv_ping_interval_without_data_ms = 300000;
    int http2_max_ping_strikes = 2;
    int max_connection_idle_ms = 1800000;  // 0: no limit
    int max_connection_age_ms = 0;         // 0: no limit
    int max_connection_age_grace_ms = 0;
  };

  // The parts of the process that all protocols need. They outlive the server, except for the policy.
  struct Dependencies {
    const Catalog& catalog;
    const ModelControl& control;
    Logger& log;
    const AccessPolicy& access;
    std::shared_ptr<ClientLimits> limits = nullptr;  // shared with the other ports; null: its own
    ThreadWatch* thread_watch = nullptr;             // reports I/O threads that hang; null: none
  };

  // Starts to listen and answer. The protocols outlive the server.
  // Errors: those of ListenOn() and the system.
  static Result<std::unique_ptr<GrpcServer>> Start(const Dependencies& dependencies,
                                                   std::vector<GrpcProtocol*> protocols,
                                                   const Options& options);
  // Shuts down at once unless Shutdown() was called. Waits for work on the protocols' threads.
  ~GrpcServer();
  GrpcServer(const GrpcServer&) = delete;
  GrpcServer& operator=(const GrpcServer&) = delete;

  // 0 if it listens on Unix sockets only.
  int bound_port() const { return port_; }
  // The number of open connections. Any thread.
  size_t connection_count() const;

  // From now on refuses inference with UNAVAILABLE "Server exiting", and ends streams without pending work.
  // Running calls continue; health, metadata and control are still answered. Returns at once; may be called
  // more than once.
  void Drain();

  // Drains, stops to listen, and waits until all calls have ended. Cancels the calls that are left at
  // `deadline_ns` (SteadyNowNs() time). Requests of cancelled calls may still run in their backends when this
  // returns; their responses are dropped. Called by one thread.
  void Shutdown(int64_t deadline_ns);

 private:
  GrpcServer();

  std::unique_ptr<GrpcServerState> state_;
  std::vector<std::unique_ptr<GrpcThread>> threads_;
  std::shared_ptr<Acceptor> acceptor_;  // shared with the first thread's loop
  int port_ = 0;
  bool shut_down_ = false;
};

}  // namespace braid
