// What the queues and calls of one gRPC server share. Owned by GrpcServer; outlives its queues.
#pragma once

#include <grpc/compression.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <unordered_set>
#include <vector>

#include "protocols/kserve/control_pool.h"
#include "protocols/kserve/grpc_control.h"
#include "protocols/kserve/grpc_metadata.h"
#include "protocols/kserve/grpc_services.h"
#include "protocols/kserve/kserve_context.h"

namespace braid {

class GrpcExtension;
class GrpcStreamCall;

// The streams that are open, so that a drain can end those which are idle. Any thread.
class GrpcStreamRegistry {
 public:
  void Add(GrpcStreamCall* stream);
  void Remove(GrpcStreamCall* stream);
  // Tells every stream that the server drains.
  void DrainAll();

 private:
  std::mutex mutex_;
  std::unordered_set<GrpcStreamCall*> streams_;  // guarded by mutex_; each one is alive while it is in here
};

// Calls that may stay open without anything under way, so that a drain can end them. Any thread.
class GrpcOpenCalls {
 public:
  // False, and it is not added, when the server drains already. `context` is alive until it is removed.
  bool Add(grpc::ServerContext& context);
  void Remove(grpc::ServerContext& context);
  // Cancels all, and takes no more.
  void CancelAll();

 private:
  std::mutex mutex_;
  std::unordered_set<grpc::ServerContext*> contexts_;  // guarded by mutex_
  bool draining_ = false;                              // likewise
};

struct GrpcServerState {
  GrpcServerState(KserveContext& kserve, std::unique_ptr<GrpcMetadataRules> metadata_rules,
                  grpc_compression_level compression_level, int load_threads,
                  std::vector<GrpcExtension*> other_protocols)
      : context(kserve),
        control(kserve),
        rules(std::move(metadata_rules)),
        compression(compression_level),
        extensions(std::move(other_protocols)),
        tasks(1, "brd-grpc-ctl", 256),
        loads(load_threads, "brd-grpc-load", 256) {}

  // UNAVAILABLE while the server starts, drains or exits.
  Status CheckServing() const {
    if (draining.load(std::memory_order_relaxed)) return UnavailableError("Server exiting");
    return context.control.serving() ? OkStatus() : UnavailableError("Server not ready");
  }

  KserveContext& context;
  GrpcControl control;
  const std::unique_ptr<GrpcMetadataRules> rules;
  const grpc_compression_level compression;  // of inference responses
  const std::vector<GrpcExtension*> extensions;
  GrpcServices services;
  std::vector<std::string> service_names;  // all that are served, sorted; constant once calls are taken
  GrpcStreamRegistry streams;
  GrpcOpenCalls reflections;
  std::atomic<bool> draining{false};
  // Last, so that their threads end before what they use.
  ControlPool tasks;
  ControlPool loads;
};

}  // namespace braid
