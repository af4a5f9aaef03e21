// What the queues and calls of one gRPC server share. Owned by GrpcServer; outlives its queues.
#pragma once

#include <grpc/compression.h>

#include <atomic>
#include <string>
#include <unordered_set>
#include <vector>

#include "base/log.h"
#include "base/mutex.h"
#include "protocols/grpc/metadata.h"
#include "protocols/grpc/protocol.h"
#include "protocols/net/control_pool.h"
#include "reflection.grpc.pb.h"
#include "serving/catalog.h"
#include "serving/model_control.h"

namespace grpc {
class ServerContext;
}

namespace braid {

// Calls that may stay open without anything under way, so that a drain can end them. Any thread.
class GrpcOpenCalls {
 public:
  // False, and it is not added, when the server drains already. `context` is alive until it is removed.
  bool Add(grpc::ServerContext& context);
  void Remove(grpc::ServerContext& context);
  // Cancels all, and takes no more.
  void CancelAll();

 private:
  Mutex mutex_;
  std::unordered_set<grpc::ServerContext*> contexts_ BRAID_GUARDED_BY(mutex_);
  bool draining_ BRAID_GUARDED_BY(mutex_) = false;
};

// With its method in raw form: none is left to gRPC's synchronous server or to its callbacks, whose threads
// would poll the same sockets and make every request change threads once more.
using GrpcReflectionService =
    grpc::reflection::v1alpha::ServerReflection::WithAsyncMethod_ServerReflectionInfo<
        grpc::reflection::v1alpha::ServerReflection::Service>;

struct GrpcServerState {
  // UNAVAILABLE while the server starts, drains or exits.
  Status CheckServing() const {
    if (draining.load(std::memory_order_relaxed)) return UnavailableError("Server exiting");
    return control.serving() ? OkStatus() : UnavailableError("Server not ready");
  }

  const Catalog& catalog;
  const ModelControl& control;
  Logger& log;
  const GrpcAccess access;
  const grpc_compression_level compression;  // of inference responses
  const std::vector<GrpcProtocol*> protocols;
  std::vector<std::string> service_names = {};  // all that are served, sorted; constant once calls are taken
  GrpcReflectionService reflection = {};
  GrpcOpenCalls reflections = {};
  std::atomic<bool> draining{false};
  // For answers that take a while. Last, so that its thread ends before what it uses.
  ControlPool tasks{1, "brd-grpc-ctl", 256};
};

}  // namespace braid
