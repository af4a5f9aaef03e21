// GrpcUnaryCall: a call with one message in and one out.
//
// The message is handled once it has arrived. A response after the client has gone is dropped. Work that
// continues after Handle() shares the call (shared_from_this()).
#pragma once

#include "protocols/grpc/call.h"

namespace braid {

class GrpcUnaryCall : public GrpcCall {
 public:
  using GrpcCall::GrpcCall;

 protected:
  // Handles the message. Leads to one SendAndFinish() or Finish(), now or later, on any thread. An exception
  // becomes the response unless the call has responded.
  virtual void Handle(GrpcMessage message) = 0;

 private:
  void OnMessage(GrpcMessage message) final { Handle(std::move(message)); }
  void OnHalfClose() final { Finish(InternalError("the call has no message")); }
};

}  // namespace braid
