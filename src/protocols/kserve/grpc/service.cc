#include "protocols/kserve/grpc/service.h"

#include <algorithm>

#include "protocols/inference/dialect.h"
#include "protocols/kserve/grpc/control_call.h"
#include "protocols/kserve/grpc/infer_call.h"
#include "protocols/kserve/grpc/request_builder.h"
#include "protocols/kserve/grpc/stream_call.h"

namespace braid {
namespace {

// How many calls wait for a client, so that taking one in does not wait for the next to be prepared.
constexpr int kArmedInferCalls = 64;
constexpr int kArmedStreamCalls = 4;
constexpr int kArmedControlCalls = 2;

}  // namespace

void GrpcStreamRegistry::Add(GrpcStreamCall* stream) {
  MutexLock lock(mutex_);
  streams_.insert(stream);
}

void GrpcStreamRegistry::Remove(GrpcStreamCall* stream) {
  MutexLock lock(mutex_);
  streams_.erase(stream);
}

void GrpcStreamRegistry::DrainAll() {
  std::vector<GrpcStreamCall*> streams;
  {
    MutexLock lock(mutex_);
    // A stream that is registered is alive by gRPC's share in it.
    for (GrpcStreamCall* stream : streams_) {
      stream->AddReference();
      streams.push_back(stream);
    }
  }
  for (GrpcStreamCall* stream : streams) {
    stream->Drain();
    stream->DropReference();
  }
}

KserveGrpc::KserveGrpc(ProtocolContext& its_context, Options options)
    : context(its_context),
      control(its_context),
      loads(std::max(1, options.load_threads), "brd-grpc-load", 256) {}

void KserveGrpc::Register(grpc::ServerBuilder& builder) {
  builder.RegisterService(&services.inference);
  builder.RegisterService(&services.health);
}

std::vector<std::string> KserveGrpc::ServiceNames() const {
  return {inference::GRPCInferenceService::service_full_name(),
          grpc::health::v1::Health::service_full_name()};
}

Status FindServable(KserveQueue& queue, ApiMethod method, InferenceRequest& request) {
  const Catalog& catalog = queue.context().catalog;
  const ParsedRequest& parsed = queue.parsed;
  BRAID_ASSIGN_OR_RETURN(request.model_version, ParseModelVersion(parsed.model_version, RulesOf(catalog)));
  auto found = queue.queue.catalog().Find(parsed.model_name, request.model_version);
  if (!found.ok()) return InferNotFound(found.status());
  request.servable = std::move(*found);
  request.api = RulesOf(request.servable->get().info()).Call(ApiInterface::kGrpc, method);
  return OkStatus();
}

std::unique_ptr<GrpcProtocol::QueueState> KserveGrpc::Arm(GrpcQueue& queue) {
  auto state = std::make_unique<KserveQueue>(*this, queue);
  for (int i = 0; i < kArmedInferCalls; ++i) GrpcInferCall::Arm(*state);
  for (int i = 0; i < kArmedStreamCalls; ++i) GrpcStreamCall::Arm(*state);
  for (int i = 0; i < kArmedControlCalls; ++i) ArmControlCalls(*state);
  return state;
}

}  // namespace braid
