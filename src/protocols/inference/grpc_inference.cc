#include "protocols/inference/grpc_inference.h"

#include "base/clock.h"
#include "base/guard.h"
#include "protocols/grpc/thread.h"
#include "protocols/inference/request_headers.h"
#include "serving/faults.h"

namespace braid {

void GrpcInference::Handle(GrpcMessage message) {
  const int64_t received_ns = ReceivedNs(tracer_);
  auto request = std::make_unique<InferenceRequest>();
  Status status = thread().state().CheckServing();
  if (status.ok()) status = Read(message.segments(), *request);
  if (status.fault() == Fault::kLoadsOnDemand) {
    HandleAfterLoad(std::move(message), request->model_name);
    return;
  }
  message = {};
  if (!status.ok()) {
    CountRefusal(*request);
    Finish(status);
    return;
  }
  Prepare(*request, tracer_, received_ns == 0 ? TraceOrigin() : TraceOriginOf(head(), received_ns));
  self_ = shared_from_this();
  Begin(std::move(request));
}

void GrpcInference::HandleAfterLoad(GrpcMessage message, const std::string& model) {
  if (awaits_since_ns_ == 0) awaits_since_ns_ = SteadyNowNs();
  // std::function must be copyable, so the message travels in a shared pointer.
  auto kept = std::make_shared<GrpcMessage>(std::move(message));
  LoadOnDemand(model, awaits_since_ns_, [this, kept](const Status& loaded) {
    if (loaded.ok()) {
      Handle(std::move(*kept));
    } else {
      Finish(loaded);
    }
  });
}

void GrpcInference::OnCancelled() {
  if (cancellation()) cancellation()->Cancel();
}

void GrpcInference::Answer(InferenceResponse response, bool last) {
  const std::shared_ptr<GrpcCall> self = last ? std::move(self_) : self_;
  if (!open()) return;
  const std::shared_ptr<RequestTrace> trace = TakeTrace();
  if (trace) trace->Record(TraceActivity::kSendStart, SteadyNowNs());
  EncodedMessage message;
  const Status status = Guarded([&] {
    BRAID_RETURN_IF_ERROR(response.status);
    BRAID_ASSIGN_OR_RETURN(message, Write(response));
    return OkStatus();
  });
  const RetryingAllocation retrying;
  if (status.ok()) {
    SendAndFinish(std::move(message));
  } else {
    Finish(status);
  }
  if (trace) trace->Record(TraceActivity::kSendEnd, SteadyNowNs());
}

}  // namespace braid
