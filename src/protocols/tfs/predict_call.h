// Predict: one request, one answer.
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
  PredictResponseForm form_;  // of the request's owner while there is one
};

}  // namespace braid
