#include "protocols/kserve/grpc/service.h"

#include <algorithm>

#include "protocols/inference/dialect.h"
#include "protocols/kserve/grpc/control.h"
#include "protocols/kserve/grpc/infer_call.h"
#include "protocols/kserve/grpc/request_builder.h"
#include "protocols/kserve/grpc/stream_call.h"

namespace braid {
KserveGrpc::KserveGrpc(ProtocolContext& its_context, Options options)
    : context(its_context), loads(std::max(1, options.load_threads), "brd-grpc-load", 256) {}

std::vector<std::string> KserveGrpc::ServiceNames() const {
  return {"inference.GRPCInferenceService", "grpc.health.v1.Health"};
}

Status FindServable(KserveThread& thread, const Authorization& authorization, ApiMethod method,
                    InferenceRequest& request) {
  const Catalog& catalog = thread.context().catalog;
  const ParsedRequest& parsed = thread.parsed;
  BRAID_RETURN_IF_ERROR(authorization.Check(parsed.model_name));
  BRAID_ASSIGN_OR_RETURN(request.model_version, ParseModelVersion(parsed.model_version, RulesOf(catalog)));
  auto found = thread.thread.catalog().Find(parsed.model_name, request.model_version);
  if (!found.ok()) {
    request.model_name = parsed.model_name;
    return InferNotFound(found.status());
  }
  request.servable = std::move(*found);
  request.api = RulesOf(request.servable->get().info()).Call(ApiInterface::kGrpc, method);
  return OkStatus();
}

std::vector<GrpcRoute> KserveGrpc::Routes(GrpcThread& thread, std::unique_ptr<ThreadState>& state) {
  auto own = std::make_unique<KserveThread>(*this, thread);
  KserveThread& shared = *own;
  state = std::move(own);
  std::vector<GrpcRoute> routes = ControlRoutes(*this);
  routes.push_back({"/inference.GRPCInferenceService/ModelInfer", Api::kInference,
                    [&shared](GrpcThread&, GrpcCall::Setup setup) {
                      return Result<std::shared_ptr<GrpcCall>>(
                          std::make_shared<GrpcInferCall>(std::move(setup), shared));
                    }});
  routes.push_back({"/inference.GRPCInferenceService/ModelStreamInfer", Api::kInference,
                    [&shared](GrpcThread&, GrpcCall::Setup setup) {
                      return GrpcStreamCall::Create(std::move(setup), shared);
                    }});
  return routes;
}

}  // namespace braid
