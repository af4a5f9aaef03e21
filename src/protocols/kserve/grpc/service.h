// KServe v2 over gRPC: inference.GRPCInferenceService, and gRPC's health service, which answers for models.
//
//   KserveGrpc kserve(context, {});        // one for each server; outlives it
//   GrpcServer::Start({catalog, control, log, context.grpc_access}, {&kserve}, options);
#pragma once

#include <memory>
#include <unordered_set>
#include <vector>

#include "base/mutex.h"
#include "protocols/grpc/protocol.h"
#include "protocols/grpc/queue.h"
#include "protocols/inference/context.h"
#include "protocols/inference/grpc_inference.h"
#include "protocols/kserve/grpc/control.h"
#include "protocols/kserve/grpc/request_reader.h"
#include "protocols/kserve/grpc/services.h"
#include "protocols/net/control_pool.h"

namespace braid {

class GrpcStreamCall;

// The streams that are open, so that a drain can end those which are idle. Any thread.
class GrpcStreamRegistry {
 public:
  void Add(GrpcStreamCall* stream);
  void Remove(GrpcStreamCall* stream);
  // Tells every stream that the server drains.
  void DrainAll();

 private:
  Mutex mutex_;
  // Each one is alive while it is in here.
  std::unordered_set<GrpcStreamCall*> streams_ BRAID_GUARDED_BY(mutex_);
};

class KserveGrpc final : public GrpcProtocol {
 public:
  struct Options {
    int load_threads = 4;  // model loads at the same time
  };
  // `context` outlives this.
  KserveGrpc(ProtocolContext& context, Options options);

  void Register(grpc::ServerBuilder& builder) override;
  std::vector<std::string> ServiceNames() const override;
  std::unique_ptr<QueueState> Arm(GrpcQueue& queue) override;
  void Drain() override { streams.DrainAll(); }
  void Stop() override { loads.Stop(); }

  // For the calls.
  ProtocolContext& context;
  GrpcControl control;
  GrpcServices services;
  GrpcStreamRegistry streams;
  ControlPool loads;
};

// What the calls of one queue share. On the queue's thread.
struct KserveQueue final : GrpcProtocol::QueueState {
  KserveQueue(KserveGrpc& protocol, GrpcQueue& its_queue) : kserve(protocol), queue(its_queue) {}

  ProtocolContext& context() const { return kserve.context; }

  KserveGrpc& kserve;
  GrpcQueue& queue;
  // The request that is being read; reuses what earlier ones allocated.
  ParsedRequest parsed;
  GrpcInference::Idle idle;
};

// Finds the servable that the parsed request names, for `request`, which is counted as a call of `method`
// where that servable counts calls. Errors: those of ParseModelVersion() and InferNotFound().
Status FindServable(KserveQueue& queue, ApiMethod method, InferenceRequest& request);

}  // namespace braid
