// A unary gRPC call that asks for one inference: what KServe's ModelInfer and TensorFlow Serving's Predict
// share. What differs, the messages, is in the classes of the protocols.
#pragma once

#include <memory>
#include <vector>

#include "protocols/grpc/message_builder.h"
#include "protocols/grpc/unary_call.h"
#include "protocols/inference/unary_inference.h"

namespace braid {

class GrpcInference : public GrpcUnaryCall, private UnaryInference {
 public:
  // Calls that have ended, to be used again: of one method, on one queue's thread.
  class Idle {
   public:
    Idle() { calls_.reserve(kMost); }

    // Null when there is none.
    GrpcInference* Take() {
      if (calls_.empty()) return nullptr;
      GrpcInference* call = calls_.back().release();
      calls_.pop_back();
      return call;
    }

   private:
    friend class GrpcInference;
    static constexpr size_t kMost = 256;
    std::vector<std::unique_ptr<GrpcInference>> calls_;
  };

  // `tracer` may be null; it outlives the calls, as `idle` does.
  GrpcInference(GrpcQueue& queue, Tracer* tracer, Idle& idle)
      : GrpcUnaryCall(queue, Api::kInference), tracer_(tracer), idle_(idle) {}

  // GrpcUnaryCall::WaitForClient(), with the server's compression.
  void WaitForClient();

 protected:
  // Makes the request of the message, which is in `segments`; sets request.api where it is to be counted, and
  // request.servable as soon as that is found. Errors are the answer. On the queue's thread.
  virtual Status Read(WireSegments segments, InferenceRequest& request) = 0;
  // Makes the message of a good response. Errors become the answer.
  virtual Result<EncodedMessage> Write(InferenceResponse& response) = 0;
  // Forgets the request, before the call is used again.
  virtual void Forget() = 0;

 private:
  void Handle() final;
  void Cancelled() final;
  void Recycle() final;
  Status CheckServing() final;

  void Answer(InferenceResponse response, bool last) final;
  void Ended() final { DropReference(); }

  Tracer* const tracer_;
  Idle& idle_;
};

}  // namespace braid
