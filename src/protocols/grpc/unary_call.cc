#include "protocols/grpc/unary_call.h"

#include "base/guard.h"
#include "protocols/grpc/status.h"

namespace braid {

void GrpcUnaryCall::WaitForClient() {
  context_.emplace();
  writer_.emplace(&*context_);
  message_.Clear();
  done_ = false;
  finished_ = false;
  phase_.store(Phase::kOpen, std::memory_order_relaxed);
  references_.store(1, std::memory_order_relaxed);
  queue_.CallArmed();
  context_->AsyncNotifyWhenDone(static_cast<GrpcEvent*>(&done_event_));
  AskForClient(&*context_, &message_, &*writer_, queue_.cq(), static_cast<GrpcEvent*>(&called_event_));
}

void GrpcUnaryCall::OnCalled(bool ok) {
  if (!ok) {
    // The server stops and nobody called; the event of the end does not come for such a call.
    GrpcQueue& queue = queue_;
    delete this;
    queue.CallEnded();
    return;
  }
  const Status status = Guarded([this] {
    BRAID_RETURN_IF_ERROR(queue_.state().access.Check(api_, *context_));
    BRAID_RETURN_IF_ERROR(CheckServing());
    Handle();
    return OkStatus();
  });
  if (!status.ok()) FinishWithError(status);
  // After the work is on its way, which somebody waits for; others of these calls wait for clients meanwhile.
  // This object is still there: gRPC's side of it ends on this thread.
  if (!queue_.taking_calls()) return;
  // With none waiting, the method would be answered no more.
  const PatientAllocation patience;
  ArmNext();
}

bool GrpcUnaryCall::ClaimAnswer() {
  Phase expected = Phase::kOpen;
  return phase_.compare_exchange_strong(expected, Phase::kAnswered, std::memory_order_acq_rel);
}

void GrpcUnaryCall::Deliver(const grpc::ByteBuffer& message, const grpc::Status& status) {
  const PatientAllocation patience;
  if (status.ok()) {
    writer_->Finish(message, status, static_cast<GrpcEvent*>(&finished_event_));
  } else {
    writer_->FinishWithError(status, static_cast<GrpcEvent*>(&finished_event_));
  }
}

void GrpcUnaryCall::Finish(const grpc::ByteBuffer& message) {
  if (ClaimAnswer()) Deliver(message, grpc::Status::OK);
}

void GrpcUnaryCall::FinishWithError(const Status& status) {
  if (ClaimAnswer()) Deliver(grpc::ByteBuffer(), ToGrpcStatus(status));
}

void GrpcUnaryCall::OnFinished(bool) {
  finished_ = true;
  if (done_) EndOfGrpc();
}

void GrpcUnaryCall::OnDone(bool) {
  done_ = true;
  Phase expected = Phase::kOpen;
  const bool abandoned =
      phase_.compare_exchange_strong(expected, Phase::kAbandoned, std::memory_order_acq_rel);
  if (abandoned || context_->IsCancelled()) Cancelled();
  if (abandoned || finished_) EndOfGrpc();
}

void GrpcUnaryCall::EndOfGrpc() {
  writer_.reset();
  context_.reset();
  message_.Clear();
  GrpcQueue& queue = queue_;
  if (references_.fetch_sub(1, std::memory_order_acq_rel) == 1) Recycle();
  queue.CallEnded();
}

}  // namespace braid
