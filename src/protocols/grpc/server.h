// A gRPC server: the protocols that share its port, and reflection.
//
//   GrpcServer::Options options;
//   options.port = 8001;
//   BRAID_ASSIGN_OR_RETURN(auto server, GrpcServer::Start({catalog, control, log, access}, {&kserve},
//   options));
//   ...
//   server->Shutdown(SteadyNowNs() + 30'000'000'000);
//
// Connections are dealt to `infer_threads` I/O threads ("brd-grpc-N"), which read them and run the calls'
// first steps. What takes long has threads of its own, so that it does not hold up inference or health
// checks.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/log.h"
#include "base/status.h"
#include "protocols/access/access_policy.h"
#include "protocols/net/client_limits.h"
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
    int port = 8001;          // 0: the system chooses, see bound_port()
    bool reuse_port = false;  // share the port with other processes
    int infer_threads = 0;    // 0: half as many as there are cores

    // Of one message that comes, inflated where it is compressed.
    size_t max_input_bytes = size_t{64} * 1024 * 1024;
    int max_concurrent_streams = 1024;   // of one connection
    int max_metadata_bytes = 32 * 1024;  // of one call
    size_t max_metadata_fields = 256;
    int max_resets_per_second = 200;  // of calls of one connection; five times as many at once
    // From a connection to its first bytes of HTTP/2, behind a handshake where there is TLS.
    int handshake_timeout_ms = 30000;
    // A message that is slower than 64 KiB in this time ends its call.
    int message_timeout_ms = 60000;

    std::shared_ptr<TlsSource> tls =
        nullptr;  // of protocol "h2", shared with who has it reloaded; null: none

    Compression infer_response_compression = Compression::kNone;

    int keepalive_time_ms = 7200000;
    int keepalive_timeout_ms = 20000;
    bool keepalive_permit_without_calls = false;
    int http2_max_pings_without_data = 2;
    int http2_min_recv_ping_interval_without_data_ms = 300000;
    int http2_max_ping_strikes = 2;
    int max_connection_idle_ms = 1800000;  // 0: without end
    int max_connection_age_ms = 0;         // 0: without end
    int max_connection_age_grace_ms = 0;
  };

  // The rest of the server, as far as all protocols need it. Outlives this one, but for the policy.
  struct Dependencies {
    const Catalog& catalog;
    const ModelControl& control;
    Logger& log;
    const AccessPolicy& access;
    std::shared_ptr<ClientLimits> limits = nullptr;  // shared with the other ports; null: its own
    ThreadWatch* thread_watch = nullptr;             // sees when an I/O thread stands still; null: none
  };

  // Listens, and answers from when it returns. The protocols outlive the server.
  // Errors: UNAVAILABLE "Socket '{address}:{port}' already in use"; INVALID_ARGUMENT for an address that is
  // none.
  static Result<std::unique_ptr<GrpcServer>> Start(const Dependencies& dependencies,
                                                   std::vector<GrpcProtocol*> protocols,
                                                   const Options& options);
  // Shuts down at once when Shutdown() was not called. Waits for what runs on threads of the protocols.
  ~GrpcServer();
  GrpcServer(const GrpcServer&) = delete;
  GrpcServer& operator=(const GrpcServer&) = delete;

  int bound_port() const { return port_; }
  // Open ones. Any thread.
  size_t connection_count() const;

  // New inference is refused with UNAVAILABLE "Server exiting" from now on, and streams end when they have
  // nothing open. What runs goes on; health, metadata and control are still answered. Returns at once; may be
  // called more than once.
  void Drain();

  // Drains, stops to listen, and waits until all calls have ended; those that have not at `deadline_ns`
  // (SteadyNowNs() time) are cancelled. Requests of cancelled calls may still run in their backends when this
  // returns; their answers are dropped. Called by one thread.
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
