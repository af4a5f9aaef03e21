// Predict: one request, one answer.
#pragma once

#include <memory>

#include "protocols/kserve/grpc_unary_call.h"
#include "protocols/tfs/predict_response_writer.h"
#include "protocols/tfs/raw_services.h"
#include "serving/request.h"

namespace braid {

class TfsPredictCall final : public GrpcUnaryCall, private ResponseSink {
 public:
  // Makes one more call wait for a client. On the queue's thread. `services` outlive the server.
  static void Arm(GrpcQueue& queue, TfsRawServices& services);

 private:
  TfsPredictCall(GrpcQueue& queue, TfsRawServices& services);

  void AskForClient(grpc::ServerContext* context, grpc::ByteBuffer* message, Writer* writer,
                    grpc::ServerCompletionQueue* cq, void* tag) override;
  void ArmNext() override { Arm(queue(), services_); }
  void Handle() override;
  void Cancelled() override;
  Status CheckServing() override;

  // The call as the sink of its request.
  void Respond(std::optional<InferenceResponse> response, bool final) override;

  // Everything up to the servable; what it returns is the answer when it fails.
  Status Begin(InferenceRequest& request);

  TfsRawServices& services_;
  std::shared_ptr<Cancellation> cancellation_;  // of the queue's thread; shared with the request
  PredictResponseForm form_;                    // of the request's owner while there is one
  bool answered_ = false;                       // likewise
  std::shared_ptr<RequestTrace> trace_;         // likewise; shared with the request
};

}  // namespace braid
