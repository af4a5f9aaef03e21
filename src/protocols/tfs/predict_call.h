// Predict: one request, one answer.
#pragma once

#include "protocols/inference/context.h"
#include "protocols/inference/grpc_inference.h"
#include "protocols/tfs/predict_response_writer.h"
#include "protocols/tfs/raw_services.h"

namespace braid {

// What the calls of one queue share. On the queue's thread.
struct TfsQueue final : GrpcProtocol::QueueState {
  TfsQueue(ProtocolContext& its_context, TfsRawServices& its_services, GrpcQueue& its_queue)
      : context(its_context), services(its_services), queue(its_queue) {}

  ProtocolContext& context;
  TfsRawServices& services;
  GrpcQueue& queue;
  GrpcInference::Idle idle;
};

class TfsPredictCall final : public GrpcInference {
 public:
  // Makes one more call wait for a client. On the queue's thread.
  static void Arm(TfsQueue& queue);

 private:
  explicit TfsPredictCall(TfsQueue& queue);

  void AskForClient(grpc::ServerContext* context, grpc::ByteBuffer* message, Writer* writer,
                    grpc::ServerCompletionQueue* cq, void* tag) override;
  void ArmNext() override { Arm(tfs_); }
  Status Read(WireSegments segments, InferenceRequest& request) override;
  Result<EncodedMessage> Write(InferenceResponse& response) override {
    return EncodePredictResponse(response, form_);
  }
  void Forget() override { form_ = PredictResponseForm(); }

  TfsQueue& tfs_;
  PredictResponseForm form_;  // of the request's owner while there is one
};

}  // namespace braid
