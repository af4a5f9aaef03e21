// The gRPC services of TensorFlow Serving, tensorflow.serving.PredictionService and ModelService, on the port
// of a GrpcServer. They serve whatever is in the catalog of the server's KserveContext.
//
//   TfsServices tensorflow_serving;               // one for each server; outlives it
//   grpc_options.extensions.push_back(&tensorflow_serving);
#pragma once

#include <memory>

#include "protocols/kserve/grpc_extension.h"

namespace braid {

struct TfsRawServices;

class TfsServices final : public GrpcExtension {
 public:
  TfsServices();
  ~TfsServices() override;

  void Register(grpc::ServerBuilder& builder) override;
  std::vector<std::string> ServiceNames() const override;
  void Arm(GrpcQueue& queue) override;

 private:
  const std::unique_ptr<TfsRawServices> services_;
};

}  // namespace braid
