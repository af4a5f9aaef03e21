// ModelStreamInfer: any number of requests on one call, run at the same time.
//
// The first message decides. Where it names a servable that takes streams, all messages go into one
// conversation with it (GrpcGraphStream). Where it names nothing that can be found, the call may end with the
// reason, and without any message too (DialectRules::streams_need_a_servable). Order and back-pressure below
// are of other calls.
//
// Order. Requests to models that answer once are answered in the order in which they came: a response that is
// ready early waits in its slot. Errors of requests that reached no model take their place in that order too.
// Responses of decoupled models go out as they come.
//
// Back-pressure. A stream reads on while fewer than kMaxOpenRequests of its requests are unanswered or their
// answers unsent, and while fewer than kPauseBytes wait to be sent. A client that does not read what a
// decoupled model sends is cut off with UNAVAILABLE when more than StreamTraffic::kMaxWaitingBytes wait and
// yet another response comes; what waited is dropped, and its requests are cancelled.
//
// Threads. Requests are read on the queue's thread; responses come from the backends' threads, and each of
// these writes directly when no other write is under way, else the queue's thread sends what has gathered:
// all but the last of it with gRPC's hint that more comes, so that it leaves in few system calls. One mutex
// guards the state and is never held across a call into gRPC or a servable.
//
// End. OK after the client has closed its side and all is answered; with `triton_grpc_error: true` in the
// metadata the status of the first error; UNAVAILABLE when the server drains and nothing is open; otherwise
// by cancellation, which cancels every open request. As with unary calls gRPC's side may end before the last
// request, or the conversation, does.
#pragma once

#include <grpcpp/grpcpp.h>

#include <atomic>
#include <deque>
#include <memory>
#include <optional>

#include "base/mutex.h"
#include "base/status.h"
#include "protocols/grpc/queue.h"
#include "protocols/grpc/stream_traffic.h"
#include "protocols/kserve/grpc/request_builder.h"
#include "protocols/kserve/grpc/response_writer.h"
#include "serving/parameters.h"
#include "serving/request.h"

namespace braid {

class GrpcGraphStream;
class GrpcStreamRegistry;
struct KserveQueue;

class GrpcStreamCall {
 public:
  static constexpr size_t kMaxOpenRequests = 256;
  static constexpr size_t kPauseBytes = 64u << 20;

  // Makes one more call wait for a client. On the queue's thread.
  static void Arm(KserveQueue& kserve);

  // The server drains: the stream ends as soon as nothing is open. Any thread that holds a reference.
  void Drain();

  void AddReference() { references_.fetch_add(1, std::memory_order_relaxed); }
  void DropReference() {
    if (references_.fetch_sub(1, std::memory_order_acq_rel) == 1) delete this;
  }

 private:
  friend class GrpcGraphStream;
  class Sink;

  // A message that waits to be written, or, with a status, the end of the stream.
  struct Outgoing {
    EncodedMessage message;
    grpc::Status end;
  };
  // The place of a request in the order of answers.
  struct Slot {
    bool ready = false;
    Outgoing answer;
  };
  // What is to be done once the mutex is released.
  struct Next {
    StreamTraffic::Claims claims;
    std::vector<std::shared_ptr<Cancellation>> cancel;
    GrpcGraphStream* graph = nullptr;  // has to be told how things stand
  };

  explicit GrpcStreamCall(KserveQueue& queue);
  ~GrpcStreamCall();
  GrpcStreamCall(const GrpcStreamCall&) = delete;
  GrpcStreamCall& operator=(const GrpcStreamCall&) = delete;

  // Events, on the queue's thread.
  void OnCalled(bool ok);
  void OnRead(bool ok);
  void OnWritten(bool ok);
  void OnFinished(bool ok);
  void OnDone(bool ok);
  void OperationEnded();
  // gRPC's side is over.
  void Leave();

  // Reads message_, and starts its request or hands it to the conversation; on the queue's thread.
  void HandleMessage(GrpcGraphStream* graph);
  // Parses the message, and finds the servable that it names.
  Status FindServable(WireSegments segments, InferenceRequest& request, Sink& sink);
  // Makes the request of the parsed message, for its sink.
  Status Build(WireSegments segments, InferenceRequest& request, Sink& sink);
  Status BuildRequest(WireSegments segments, Servable& servable, InferenceRequest& request,
                      AnswerOptions& answer);
  // Begins the conversation with the servable of the first message.
  void Converse(WireSegments segments, std::unique_ptr<ServableHandle> servable);
  // The call ends with the status.
  void EndWith(const Status& status);
  // The same from any thread that holds a reference, when nothing else can be told any more.
  void EndWithFault(const Status& status) noexcept;
  bool needs_a_servable() const;
  // Answers a request that reached no model.
  void Refuse(const Status& status, const std::string& id);

  // From the sinks, any thread. `answers`: nothing more will be sent for this request.
  void Send(Sink& sink, Outgoing outgoing, bool answers);
  // The request ends without a further message.
  void EndSilently(Sink& sink);
  void Forget(Sink& sink);

  void PushLocked(Outgoing outgoing) BRAID_REQUIRES(mutex_);
  void FillSlotLocked(uint64_t slot, Outgoing outgoing) BRAID_REQUIRES(mutex_);
  // Claims what can be done now.
  void AdvanceLocked(Next& next) BRAID_REQUIRES(mutex_);
  void CancelSinksLocked(Next& next) BRAID_REQUIRES(mutex_);
  void Run(Next& next) BRAID_EXCLUDES(mutex_);
  // Both, when something has changed.
  void Advance() BRAID_EXCLUDES(mutex_);

  KserveQueue& kserve_;
  GrpcQueue& queue_;
  GrpcStreamRegistry& registry_;
  std::atomic<int> references_{1};  // gRPC's side, and each open request's sink

  // Owned by the queue's thread; stream_ may be used by any thread for an operation that was claimed under
  // the mutex.
  std::optional<grpc::ServerContext> context_;
  std::optional<StreamTraffic::Call> stream_;
  grpc::ByteBuffer message_;
  Parameters forwarded_;
  bool grpc_errors_ = false;
  bool first_message_ = true;  // none was read yet

  GrpcEventOf<GrpcStreamCall, &GrpcStreamCall::OnCalled> called_event_{this};
  GrpcEventOf<GrpcStreamCall, &GrpcStreamCall::OnRead> read_event_{this};
  GrpcEventOf<GrpcStreamCall, &GrpcStreamCall::OnWritten> written_event_{this};
  GrpcEventOf<GrpcStreamCall, &GrpcStreamCall::OnFinished> finished_event_{this};
  GrpcEventOf<GrpcStreamCall, &GrpcStreamCall::OnDone> done_event_{this};

  const StreamTraffic::Setup io_;

  // Set when the call has ended, for skipping the work of making an answer that nobody gets.
  std::atomic<bool> closed_{false};

  Mutex mutex_;
  StreamTraffic traffic_ BRAID_GUARDED_BY(mutex_);
  // Null unless the first message has begun a conversation; set by the queue's thread.
  std::unique_ptr<GrpcGraphStream> graph_ BRAID_GUARDED_BY(mutex_);
  bool handling_ BRAID_GUARDED_BY(mutex_) = false;  // a message that was read is being looked at
  bool draining_ BRAID_GUARDED_BY(mutex_) = false;
  bool cancelled_ BRAID_GUARDED_BY(mutex_) = false;  // by the client, or by the server's end
  std::deque<Slot> slots_ BRAID_GUARDED_BY(mutex_);
  uint64_t first_slot_ BRAID_GUARDED_BY(mutex_) = 0;   // number of slots_.front()
  size_t open_requests_ BRAID_GUARDED_BY(mutex_) = 0;  // whose last answer is not yet among those that wait
  // Requests that have not ended, a doubly linked list.
  Sink* sinks_ BRAID_GUARDED_BY(mutex_) = nullptr;
};

}  // namespace braid
