// A unary call in raw form, from waiting for a client to the end.
//
// A call has two sides. The side of gRPC (context, writer, events) lives on the queue's thread and ends with
// the answer or, when the client goes away, at once. The side of the work (a request in a backend, a task)
// may end later and finds its answer dropped. The object lives until both are done.
#pragma once

#include <grpcpp/grpcpp.h>

#include <atomic>
#include <optional>

#include "base/status.h"
#include "protocols/grpc/queue.h"
#include "protocols/net/access_policy.h"

namespace braid {

class GrpcUnaryCall {
 public:
  using Writer = grpc::ServerAsyncResponseWriter<grpc::ByteBuffer>;

  GrpcUnaryCall(GrpcQueue& queue, Api api) : queue_(queue), api_(api) {}
  GrpcUnaryCall(const GrpcUnaryCall&) = delete;
  GrpcUnaryCall& operator=(const GrpcUnaryCall&) = delete;
  virtual ~GrpcUnaryCall() = default;

 protected:
  // On the queue's thread: waits for a client. The call then owns itself.
  void WaitForClient();

  // Asks gRPC for the next call of the method; `tag` is what comes back then.
  virtual void AskForClient(grpc::ServerContext* context, grpc::ByteBuffer* message, Writer* writer,
                            grpc::ServerCompletionQueue* cq, void* tag) = 0;
  // A client has called; makes another call wait for the next.
  virtual void ArmNext() = 0;
  // Reads message() and leads to one Finish or FinishWithError, now or later, on any thread. What it throws
  // is the answer, unless there is one.
  virtual void Handle() = 0;
  // The client has gone, or the answer could not be delivered.
  virtual void Cancelled() {}
  // Both sides are done, on the queue's thread.
  virtual void Recycle() { delete this; }

  // Answers; any thread. What comes after the first, or after the client has gone, is dropped. The call must
  // not be touched afterwards by a thread that holds no reference.
  void Finish(const grpc::ByteBuffer& message);
  void FinishWithError(const Status& status);
  // Whether an answer can still be delivered; for skipping the work of making it.
  bool open() const { return phase_.load(std::memory_order_acquire) == Phase::kOpen; }

  // The work's side takes a reference before it leaves the queue's thread and drops it as the last thing, on
  // any thread.
  void AddReference() { references_.fetch_add(1, std::memory_order_relaxed); }
  void DropReference() {
    if (references_.fetch_sub(1, std::memory_order_acq_rel) == 1) delete this;
  }
  // The same where more is to come: to be called before Finish(), which needs none.
  // REQUIRES: called between a successful ClaimAnswer() and Deliver().
  void DropReferenceEarly() { references_.fetch_sub(1, std::memory_order_acq_rel); }
  // Finish() in two steps.
  bool ClaimAnswer();
  void Deliver(const grpc::ByteBuffer& message, const grpc::Status& status);

  GrpcQueue& queue() { return queue_; }
  grpc::ServerContext& context() { return *context_; }
  grpc::ByteBuffer& message() { return message_; }
  Api api() const { return api_; }
  // Refuses the call while the server does not serve, where that concerns it.
  virtual Status CheckServing() { return OkStatus(); }

 private:
  enum class Phase : uint8_t { kOpen, kAnswered, kAbandoned };

  void OnCalled(bool ok);
  void OnFinished(bool ok);
  void OnDone(bool ok);
  void EndOfGrpc();

  GrpcQueue& queue_;
  const Api api_;
  std::atomic<Phase> phase_{Phase::kOpen};
  std::atomic<int> references_{0};  // gRPC's side and the work's

  // Owned by the queue's thread, but for writer_ between ClaimAnswer() and the end of Deliver().
  std::optional<grpc::ServerContext> context_;
  std::optional<Writer> writer_;
  grpc::ByteBuffer message_;
  bool done_ = false;
  bool finished_ = false;

  GrpcEventOf<GrpcUnaryCall, &GrpcUnaryCall::OnCalled> called_event_{this};
  GrpcEventOf<GrpcUnaryCall, &GrpcUnaryCall::OnFinished> finished_event_{this};
  GrpcEventOf<GrpcUnaryCall, &GrpcUnaryCall::OnDone> done_event_{this};
};

}  // namespace braid
