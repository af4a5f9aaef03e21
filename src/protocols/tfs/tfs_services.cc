#include "protocols/tfs/tfs_services.h"

#include <grpcpp/server_builder.h>

#include "protocols/tfs/control_call.h"
#include "protocols/tfs/predict_call.h"
#include "protocols/tfs/raw_services.h"

namespace braid {
namespace {

// How many calls wait for a client, so that taking one in does not wait for the next to be prepared.
constexpr int kArmedPredictCalls = 32;

}  // namespace

TfsServices::TfsServices(ProtocolContext& context)
    : context_(context), services_(std::make_unique<TfsRawServices>()) {}
TfsServices::~TfsServices() = default;

void TfsServices::Register(grpc::ServerBuilder& builder) {
  builder.RegisterService(&services_->prediction);
  builder.RegisterService(&services_->model);
}

std::vector<std::string> TfsServices::ServiceNames() const {
  return {RawPredictionService::service_full_name(), RawModelService::service_full_name()};
}

std::unique_ptr<GrpcProtocol::QueueState> TfsServices::Arm(GrpcQueue& queue) {
  auto state = std::make_unique<TfsQueue>(context_, *services_, queue);
  for (int i = 0; i < kArmedPredictCalls; ++i) TfsPredictCall::Arm(*state);
  ArmTfsControlCalls(queue, *this);
  return state;
}

}  // namespace braid
