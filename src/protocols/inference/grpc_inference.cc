#include "protocols/inference/grpc_inference.h"

#include "base/clock.h"
#include "base/guard.h"
#include "protocols/grpc/status.h"
#include "protocols/inference/request_headers.h"

namespace braid {

void GrpcInference::WaitForClient() {
  GrpcUnaryCall::WaitForClient();
  const grpc_compression_level compression = queue().state().compression;
  if (compression != GRPC_COMPRESS_LEVEL_NONE) context().set_compression_level(compression);
}

Status GrpcInference::CheckServing() { return queue().state().CheckServing(); }

void GrpcInference::Handle() {
  const int64_t received_ns = ReceivedNs(tracer_);
  auto request = std::make_unique<InferenceRequest>();
  const Status status = Read(queue().Spread(message()), *request);
  queue().ForgetMessage();
  message().Clear();
  if (!status.ok()) {
    CountRefusal(*request);
    FinishWithError(status);
    return;
  }
  Prepare(*request, tracer_, received_ns == 0 ? TraceOrigin() : TraceOriginOf(context(), received_ns));
  AddReference();
  Begin(std::move(request));
}

void GrpcInference::Cancelled() {
  if (cancellation()) cancellation()->Cancel();
}

void GrpcInference::Recycle() {
  if (idle_.calls_.size() >= Idle::kMost) {
    delete this;
    return;
  }
  Reset();
  Forget();
  idle_.calls_.emplace_back(this);
}

void GrpcInference::Answer(InferenceResponse response, bool last) {
  if (!open()) {
    if (last) DropReference();
    return;
  }
  const std::shared_ptr<RequestTrace> trace = TakeTrace();
  if (trace) trace->Record(TraceActivity::kSendStart, SteadyNowNs());
  EncodedMessage message;
  const Status status = Guarded([&] {
    BRAID_RETURN_IF_ERROR(response.status);
    BRAID_ASSIGN_OR_RETURN(message, Write(response));
    return OkStatus();
  });
  if (!ClaimAnswer()) {
    if (last) DropReference();
    return;
  }
  // From Deliver() on the other side may end the call at any time.
  if (last) DropReferenceEarly();
  Deliver(message.bytes, ToGrpcStatus(status));
  if (trace) trace->Record(TraceActivity::kSendEnd, SteadyNowNs());
}

}  // namespace braid
