// ModelInfer: one request, one answer.
#pragma once

#include "protocols/inference/grpc_inference.h"
#include "protocols/kserve/grpc/request_builder.h"

namespace braid {

struct KserveQueue;

class GrpcInferCall final : public GrpcInference {
 public:
  explicit GrpcInferCall(KserveQueue& queue);

  // Makes one more call wait for a client. On the queue's thread.
  static void Arm(KserveQueue& queue);

 private:
  void AskForClient(grpc::ServerContext* context, grpc::ByteBuffer* message, Writer* writer,
                    grpc::ServerCompletionQueue* cq, void* tag) override;
  void ArmNext() override { Arm(kserve_); }
  Status Read(WireSegments segments, InferenceRequest& request) override;
  Result<EncodedMessage> Write(InferenceResponse& response) override;
  void Forget() override { answer_ = AnswerOptions(); }

  KserveQueue& kserve_;
  AnswerOptions answer_;  // of the request's owner while there is one
};

}  // namespace braid
