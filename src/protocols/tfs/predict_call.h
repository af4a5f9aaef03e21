// TfsPredictCall: Predict, one request with one response.
#pragma once

#include "protocols/inference/context.h"
#include "protocols/inference/grpc_inference.h"
#include "protocols/tfs/predict_response_writer.h"

namespace braid {

class TfsPredictCall final : public GrpcInference {
 public:
  // `context` outlives the call.
  TfsPredictCall(Setup setup, ProtocolContext& context);

 private:
  Status Read(WireSegments segments, InferenceRequest& request) override;
  Result<EncodedMessage> Write(InferenceResponse& response) override {
    return EncodePredictResponse(response, form_);
  }

  ProtocolContext& context_;
  PredictResponseForm form_;  // used by the request's owner while the request runs
};

}  // namespace braid
