// The gRPC services of TensorFlow Serving, tensorflow.serving.PredictionService and ModelService, on the port
// of a GrpcServer.
//
//   TfsServices tensorflow_serving(context);      // one for each server; outlives it
//   GrpcServer::Start({catalog, control, log, access}, {&kserve, &tensorflow_serving}, options);
#pragma once

#include <memory>

#include "protocols/grpc/protocol.h"

namespace braid {

struct ProtocolContext;
struct TfsRawServices;

class TfsServices final : public GrpcProtocol {
 public:
  // `context` outlives this.
  explicit TfsServices(ProtocolContext& context);
  ~TfsServices() override;

  void Register(grpc::ServerBuilder& builder) override;
  std::vector<std::string> ServiceNames() const override;
  std::unique_ptr<QueueState> Arm(GrpcQueue& queue) override;

  // For the calls.
  ProtocolContext& context() { return context_; }
  TfsRawServices& services() { return *services_; }

 private:
  ProtocolContext& context_;
  const std::unique_ptr<TfsRawServices> services_;
};

}  // namespace braid
