// GrpcServerState: the state that the I/O threads and calls of one gRPC server share. Owned by GrpcServer;
// outlives its threads.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "base/log.h"
#include "protocols/access/access_policy.h"
#include "protocols/grpc/connection_options.h"
#include "protocols/grpc/protocol.h"
#include "protocols/http2/session.h"
#include "protocols/net/client_limits.h"
#include "protocols/net/control_pool.h"
#include "protocols/net/tls.h"
#include "serving/catalog.h"
#include "serving/model_control.h"

namespace braid {

struct GrpcServerState {
  // UNAVAILABLE while the server starts, drains or exits.
  Status CheckServing() const {
    if (draining.load(std::memory_order_relaxed)) return UnavailableError("Server exiting");
    return control.serving() ? OkStatus() : UnavailableError("Server not ready");
  }

  const Catalog& catalog;
  const ModelControl& control;
  Logger& log;
  const AccessPolicy access;
  const Http2Session::Limits http2;
  const GrpcConnectionOptions connections;
  const size_t max_input_bytes;                // of one message
  const int compression_level;                 // of messages to clients that accept it; 0: none
  const std::shared_ptr<ClientLimits> limits;  // shared with the other ports
  const std::shared_ptr<TlsSource> tls;        // shared with the clients' streams; null: no TLS
  const std::vector<GrpcProtocol*> protocols;
  std::vector<std::string> service_names = {};  // all services, sorted; constant once calls are taken
  std::atomic<bool> draining{false};
  // Inflates compressed messages.
  ControlPool inflating{HalfOfCores(), "brd-grpc-read", 4096, ControlPool::Priority::kLow};
  // Runs longer tasks.
  ControlPool tasks{1, "brd-grpc-ctl", 256};
};

}  // namespace braid
