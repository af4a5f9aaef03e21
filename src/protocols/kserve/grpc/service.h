// KserveGrpc: KServe v2 over gRPC. It serves inference.GRPCInferenceService, and gRPC's health service for
// models.
//
//   KserveGrpc kserve(context, {});        // one per server; outlives it
//   GrpcServer::Start({catalog, control, log, context.grpc_access}, {&kserve}, options);
#pragma once

#include <memory>
#include <vector>

#include "protocols/grpc/protocol.h"
#include "protocols/grpc/thread.h"
#include "protocols/inference/context.h"
#include "protocols/inference/grpc_inference.h"
#include "protocols/kserve/grpc/request_reader.h"
#include "protocols/net/control_pool.h"

namespace braid {

class KserveGrpc final : public GrpcProtocol {
 public:
  struct Options {
    int load_threads = 4;  // concurrent model loads
  };
  // `context` outlives this.
  KserveGrpc(ProtocolContext& context, Options options);

  std::vector<std::string> ServiceNames() const override;
  std::vector<GrpcRoute> Routes(GrpcThread& thread, std::unique_ptr<ThreadState>& state) override;
  void Stop() override { loads.Stop(); }

  // For the calls.
  ProtocolContext& context;
  ControlPool loads;
};

// State shared by the calls of one I/O thread; used only there.
struct KserveThread final : GrpcProtocol::ThreadState {
  KserveThread(KserveGrpc& protocol, GrpcThread& its_thread) : kserve(protocol), thread(its_thread) {}

  ProtocolContext& context() const { return kserve.context; }

  KserveGrpc& kserve;
  GrpcThread& thread;
  // The request being read; reuses the allocations of earlier ones.
  ParsedRequest parsed;
};

// Finds the servable of the parsed request and sets it in `request`. The request counts as a call of `method`
// if the servable counts calls. Errors: those of the authorization, ParseModelVersion() and InferNotFound().
Status FindServable(KserveThread& thread, const Authorization& authorization, ApiMethod method,
                    InferenceRequest& request);

}  // namespace braid
