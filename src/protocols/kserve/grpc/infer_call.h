// GrpcInferCall: ModelInfer, one request with one response.
#pragma once

#include "protocols/inference/grpc_inference.h"
#include "protocols/kserve/grpc/request_builder.h"

namespace braid {

struct KserveThread;

class GrpcInferCall final : public GrpcInference {
 public:
  GrpcInferCall(Setup setup, KserveThread& thread);

 private:
  Status Read(WireSegments segments, InferenceRequest& request) override;
  Result<EncodedMessage> Write(InferenceResponse& response) override;

  KserveThread& kserve_;
  AnswerOptions answer_;  // used by the request's owner while the request runs
};

}  // namespace braid
