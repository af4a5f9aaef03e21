// TfsServices: the gRPC services of TensorFlow Serving, tensorflow.serving.PredictionService and
// ModelService, on the port of a GrpcServer.
//
//   TfsServices tensorflow_serving(context);      // one per server; outlives it
//   GrpcServer::Start({catalog, control, log, access}, {&kserve, &tensorflow_serving}, options);
#pragma once

#include <memory>

#include "protocols/grpc/protocol.h"

namespace braid {

struct ProtocolContext;

class TfsServices final : public GrpcProtocol {
 public:
  // `context` outlives this.
  explicit TfsServices(ProtocolContext& context) : context_(context) {}

  std::vector<std::string> ServiceNames() const override;
  std::vector<GrpcRoute> Routes(GrpcThread& thread, std::unique_ptr<ThreadState>& state) override;

  // For the calls.
  ProtocolContext& context() { return context_; }

 private:
  ProtocolContext& context_;
};

}  // namespace braid
