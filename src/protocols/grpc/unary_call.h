// A call with one message in and one out.
//
// The message is handled as soon as it is there; what is answered after the client has gone is dropped. Work
// that goes on after Handle() keeps a share in the call (shared_from_this()).
#pragma once

#include "protocols/grpc/call.h"

namespace braid {

class GrpcUnaryCall : public GrpcCall {
 public:
  using GrpcCall::GrpcCall;

 protected:
  // Leads to one SendAndFinish() or Finish(), now or later, on any thread. What it throws is the answer,
  // unless there is one.
  virtual void Handle(GrpcMessage message) = 0;

 private:
  void OnMessage(GrpcMessage message) final { Handle(std::move(message)); }
  void OnHalfClose() final { Finish(InternalError("the call has no message")); }
};

}  // namespace braid
