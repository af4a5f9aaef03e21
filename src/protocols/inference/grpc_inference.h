// A unary gRPC call that asks for one inference: what KServe's ModelInfer and TensorFlow Serving's Predict
// share. What differs, the messages, is in the classes of the protocols.
#pragma once

#include <memory>

#include "protocols/grpc/message.h"
#include "protocols/grpc/unary_call.h"
#include "protocols/inference/unary_inference.h"

namespace braid {

class GrpcInference : public GrpcUnaryCall, private UnaryInference {
 public:
  // `tracer` may be null; it outlives the calls.
  GrpcInference(Setup setup, Tracer* tracer) : GrpcUnaryCall(std::move(setup)), tracer_(tracer) {
    EnableCompression();
  }

 protected:
  // Makes the request of the message, which is in `segments`; sets request.api where it is to be counted, and
  // request.servable as soon as that is found. Errors are the answer. On the I/O thread.
  virtual Status Read(WireSegments segments, InferenceRequest& request) = 0;
  // Makes the message of a good response. Errors become the answer.
  virtual Result<EncodedMessage> Write(InferenceResponse& response) = 0;

 private:
  void Handle(GrpcMessage message) final;
  void OnCancelled() final;

  void Answer(InferenceResponse response, bool last) final;
  void Ended() final { self_.reset(); }

  Tracer* const tracer_;
  std::shared_ptr<GrpcCall> self_;  // owned by the request's owner while the request runs
};

}  // namespace braid
