// ModelInfer: one request, one answer.
#pragma once

#include <memory>

#include "protocols/kserve/grpc_request_builder.h"
#include "protocols/kserve/grpc_unary_call.h"
#include "serving/request.h"

namespace braid {

class GrpcInferCall final : public GrpcUnaryCall, private ResponseSink {
 public:
  explicit GrpcInferCall(GrpcQueue& queue);

  // Makes one more call wait for a client. On the queue's thread.
  static void Arm(GrpcQueue& queue);

 private:
  void AskForClient(grpc::ServerContext* context, grpc::ByteBuffer* message, Writer* writer,
                    grpc::ServerCompletionQueue* cq, void* tag) override;
  void ArmNext() override { Arm(queue()); }
  void Handle() override;
  void Cancelled() override;
  void Recycle() override;
  Status CheckServing() override;

  // The call as the sink of its request.
  void Respond(std::optional<InferenceResponse> response, bool final) override;

  // Everything up to the servable; what it returns is the answer when it fails.
  Status Begin(std::unique_ptr<InferenceRequest>& request);

  std::shared_ptr<Cancellation> cancellation_;  // of the queue's thread; shared with the request
  AnswerOptions answer_;                        // of the request's owner while there is one
  bool answered_ = false;                       // likewise
  std::shared_ptr<RequestTrace> trace_;         // likewise; shared with the request
};

}  // namespace braid
