// GrpcInference: a unary gRPC call for one inference, the common part of KServe's ModelInfer and TensorFlow
// Serving's Predict. Their subclasses read and write the messages.
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
  // Builds the request from the message in `segments`. Sets request.api if the call is counted, and
  // request.servable as soon as it is found; a name that is not found is in request.model_name. Errors are
  // the response. Called on the I/O thread, once more if the model had to be loaded.
  virtual Status Read(WireSegments segments, InferenceRequest& request) = 0;
  // Builds the message of a successful response. Errors become the response.
  virtual Result<EncodedMessage> Write(InferenceResponse& response) = 0;

 private:
  void Handle(GrpcMessage message) final;
  void OnCancelled() final;

  void Answer(InferenceResponse response, bool last) final;
  void Ended() final { self_.reset(); }

  void HandleAfterLoad(GrpcMessage message, const std::string& model);

  Tracer* const tracer_;
  int64_t awaits_since_ns_ = 0;     // see OnDemandLoader::Load(); 0: it did not wait
  std::shared_ptr<GrpcCall> self_;  // keeps this alive while the request runs; used by the request's owner
};

}  // namespace braid
