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
// decoupled model sends is cut off with UNAVAILABLE when more than kMaxWaitingBytes wait and yet another
// response comes; what waited is dropped, and its requests are cancelled.
//
// Threads. Requests are read on the I/O thread; responses come from the backends' threads. One mutex guards
// the state; it is taken before the connection's, and is not held while anything is written or begun.
//
// End. OK after the client has closed its side and all is answered; with `triton_grpc_error: true` in the
// metadata the status of the first error; UNAVAILABLE when the server drains and nothing is open; otherwise
// by cancellation, which cancels every open request.
#pragma once

#include <atomic>
#include <deque>
#include <memory>
#include <vector>

#include "base/mutex.h"
#include "base/status.h"
#include "protocols/grpc/call.h"
#include "protocols/kserve/grpc/request_builder.h"
#include "protocols/kserve/grpc/response_writer.h"
#include "serving/parameters.h"
#include "serving/request.h"

namespace braid {

class GrpcGraphStream;
struct KserveThread;

class GrpcStreamCall final : public GrpcCall {
 public:
  static constexpr size_t kMaxOpenRequests = 256;
  static constexpr size_t kPauseBytes = 64u << 20;
  // A client that reads nothing costs so much memory, and a message.
  static constexpr size_t kMaxWaitingBytes = size_t{256} << 20;

  // Errors: the server does not serve; INVALID_ARGUMENT for metadata that cannot be forwarded.
  static Result<std::shared_ptr<GrpcCall>> Create(Setup setup, KserveThread& thread);
  GrpcStreamCall(Setup setup, KserveThread& thread);
  ~GrpcStreamCall() override;

 private:
  friend class GrpcGraphStream;
  class Sink;

  // A message that is to be sent, or, with a status, the end of the stream.
  struct Outgoing {
    EncodedMessage message;
    Status end;
  };
  // The place of a request in the order of answers.
  struct Slot {
    bool ready = false;
    Outgoing answer;
  };
  // What is to be done once the mutex is released.
  struct Next {
    bool read = false;
    bool notify = false;   // when less waits
    Waiting most;          // that is
    bool cut_off = false;  // for the log
    std::vector<std::shared_ptr<Cancellation>> cancel;
    GrpcGraphStream* graph = nullptr;  // has to be told how things stand
  };

  void OnMessage(GrpcMessage message) override;
  void OnHalfClose() override;
  void OnCancelled() override;
  void OnSent() override;
  void OnDrain() override;

  // Reads the message, and starts its request or hands it to the conversation.
  void HandleMessage(GrpcMessage message, GrpcGraphStream* graph);
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
  void KeepOrder(InferenceRequest& request);
  bool needs_a_servable() const;
  // Answers a request that reached no model.
  void Refuse(const Status& status, const std::string& id);
  std::shared_ptr<GrpcStreamCall> self() {
    return std::static_pointer_cast<GrpcStreamCall>(shared_from_this());
  }

  // From the sinks, any thread. `answers`: nothing more will be sent for this request.
  void SendAnswer(Sink& sink, Outgoing outgoing, bool answers);
  // The request ends without a further message.
  void EndSilently(Sink& sink);
  void Forget(Sink& sink);

  void PushLocked(Outgoing outgoing) BRAID_REQUIRES(mutex_);
  // Ends the call in place of the next message when more than kMaxWaitingBytes wait, and drops them. False
  // when it does not.
  bool CutOffLocked(Next& next) BRAID_REQUIRES(mutex_);
  void EndLocked(const Status& status) BRAID_REQUIRES(mutex_);
  void FillSlotLocked(uint64_t slot, Outgoing outgoing) BRAID_REQUIRES(mutex_);
  // Decides what can be done now.
  void AdvanceLocked(Next& next) BRAID_REQUIRES(mutex_);
  void CancelSinksLocked(Next& next) BRAID_REQUIRES(mutex_);
  void Run(Next& next) BRAID_EXCLUDES(mutex_);
  // Both, when something has changed.
  void Advance() BRAID_EXCLUDES(mutex_);

  KserveThread& kserve_;

  // Constant once the call is made.
  Parameters forwarded_;
  bool grpc_errors_ = false;
  // Of the I/O thread.
  bool first_message_ = true;  // none was read yet
  bool preparations_ = false;  // a request before has taken one, so all take it

  Mutex mutex_;
  // Null unless the first message has begun a conversation; set by the I/O thread.
  std::unique_ptr<GrpcGraphStream> graph_ BRAID_GUARDED_BY(mutex_);
  bool reading_ BRAID_GUARDED_BY(mutex_) = true;    // a message was asked for
  bool handling_ BRAID_GUARDED_BY(mutex_) = false;  // a message that was read is being looked at
  bool half_closed_ BRAID_GUARDED_BY(mutex_) = false;
  bool ended_ BRAID_GUARDED_BY(mutex_) = false;  // nothing more is sent
  bool draining_ BRAID_GUARDED_BY(mutex_) = false;
  bool cancelled_ BRAID_GUARDED_BY(mutex_) = false;  // by the client, or by the server's end
  std::deque<Slot> slots_ BRAID_GUARDED_BY(mutex_);
  uint64_t first_slot_ BRAID_GUARDED_BY(mutex_) = 0;   // number of slots_.front()
  size_t open_requests_ BRAID_GUARDED_BY(mutex_) = 0;  // whose last answer is not yet sent
  // Requests that have not ended, a doubly linked list.
  Sink* sinks_ BRAID_GUARDED_BY(mutex_) = nullptr;
};

}  // namespace braid
