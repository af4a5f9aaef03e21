// GrpcStreamCall: ModelStreamInfer, any number of concurrent requests on one call.
//
// The first message selects the mode. If it names a servable that takes streams, all messages go into one
// conversation with it (GrpcGraphStream). DialectRules::streams_need_a_servable ends the call with an error
// if the first message's servable is not found, or if there is no message. The rules below apply to all other
// calls.
//
// Order. Requests to models with one response are answered in order of arrival: an early response waits in
// its slot. Errors of requests that reached no model keep that order too. Responses of decoupled models are
// sent as they arrive.
//
// Backpressure. A stream reads on while fewer than kMaxOpenRequests of its requests are unanswered or unsent,
// and fewer than kPauseBytes wait to be sent. A client that does not read a decoupled model's responses is
// cut off with UNAVAILABLE, when a response arrives while more than kMaxWaitingBytes wait. Waiting responses
// are dropped and the client's requests cancelled.
//
// Threads. Requests are read on the I/O thread; responses arrive on the backends' threads. One mutex guards
// the state. Lock order: this mutex, then the connection's. The mutex is not held during writes or when a
// request begins.
//
// End. The call ends with OK after the client has closed its side and all requests are answered. With
// `triton_grpc_error: true` in the metadata it ends with the status of the first error. When the server
// drains and no request is open, it ends with UNAVAILABLE. A cancellation ends it and cancels every open
// request.
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
  // Memory limit for a client that reads nothing; one more message may exceed it.
  static constexpr size_t kMaxWaitingBytes = size_t{256} << 20;

  // Creates the call. Errors: the server does not serve; INVALID_ARGUMENT for metadata that cannot be
  // forwarded.
  static Result<std::shared_ptr<GrpcCall>> Create(Setup setup, KserveThread& thread);
  GrpcStreamCall(Setup setup, KserveThread& thread);
  ~GrpcStreamCall() override;

 private:
  friend class GrpcGraphStream;
  class Sink;

  // A message to send; with an error status possibly the end of the stream.
  struct Outgoing {
    EncodedMessage message;
    Status end;
  };
  // A request's place in the order of answers.
  struct Slot {
    bool ready = false;
    Outgoing answer;
  };
  // Actions for after the mutex is released.
  struct Next {
    bool read = false;
    bool notify = false;  // when at most `most` waits to be sent
    Waiting most;
    bool cut_off = false;  // for the log
    std::vector<std::shared_ptr<Cancellation>> cancel;
    GrpcGraphStream* graph = nullptr;  // needs to be notified of changes
  };

  void OnMessage(GrpcMessage message) override;
  void OnHalfClose() override;
  void OnCancelled() override;
  void OnSent() override;
  void OnDrain() override;

  // Reads a message and begins its request; then continues with the next. `since_ns`: when the message began
  // to wait for its model to be loaded (OnDemandLoader); 0: it does not. REQUIRES: handling_.
  void Handle(GrpcMessage message, GrpcGraphStream* graph, int64_t since_ns);
  // Passes the message to the conversation, or begins its request. Returns false if its model has to be
  // loaded first: Handle() follows then, and no other message is read meanwhile.
  bool HandleMessage(GrpcMessage& message, GrpcGraphStream* graph, int64_t since_ns);
  // Handles the message again after the model was loaded.
  void HandleAfterLoad(GrpcMessage message, int64_t since_ns);
  // Parses the message and finds its servable.
  Status FindServable(WireSegments segments, InferenceRequest& request, Sink& sink);
  // Builds the request of the parsed message for its sink.
  Status Build(WireSegments segments, InferenceRequest& request, Sink& sink);
  Status BuildRequest(WireSegments segments, Servable& servable, InferenceRequest& request,
                      AnswerOptions& answer);
  // Begins the conversation with the first message's servable.
  void Converse(WireSegments segments, std::unique_ptr<ServableHandle> servable);
  // Ends the call with the status.
  void EndWith(const Status& status);
  // The same from any thread that holds a reference, when memory is too short to answer otherwise.
  void EndWithFault(const Status& status) noexcept;
  void KeepOrder(InferenceRequest& request);
  bool needs_a_servable() const;
  // Answers a request that reached no model.
  void Refuse(const Status& status, const std::string& id);
  std::shared_ptr<GrpcStreamCall> self() {
    return std::static_pointer_cast<GrpcStreamCall>(shared_from_this());
  }

  // Sends a response; called by the sinks on any thread. `answers`: the last message for this request.
  void SendAnswer(Sink& sink, Outgoing outgoing, bool answers);
  // Ends the request without a further message.
  void EndSilently(Sink& sink);
  void Forget(Sink& sink);

  void PushLocked(Outgoing outgoing) BRAID_REQUIRES(mutex_);
  // If more than kMaxWaitingBytes wait, drops them, ends the call and returns true.
  bool CutOffLocked(Next& next) BRAID_REQUIRES(mutex_);
  void EndLocked(const Status& status) BRAID_REQUIRES(mutex_);
  void FillSlotLocked(uint64_t slot, Outgoing outgoing) BRAID_REQUIRES(mutex_);
  // Ends the call if due, and collects further actions in `next`.
  void AdvanceLocked(Next& next) BRAID_REQUIRES(mutex_);
  void CancelSinksLocked(Next& next) BRAID_REQUIRES(mutex_);
  void Run(Next& next) BRAID_EXCLUDES(mutex_);
  // Calls AdvanceLocked() and Run() after a change.
  void Advance() BRAID_EXCLUDES(mutex_);

  KserveThread& kserve_;

  // Constant after construction.
  Parameters forwarded_;
  bool grpc_errors_ = false;
  // Used on the I/O thread.
  bool first_message_ = true;  // no message was read yet
  bool preparations_ = false;  // an earlier request needed a preparation, so all later ones take one

  Mutex mutex_;
  // Null without a conversation; set by the I/O thread.
  std::unique_ptr<GrpcGraphStream> graph_ BRAID_GUARDED_BY(mutex_);
  bool reading_ BRAID_GUARDED_BY(mutex_) = true;    // a message was requested
  bool handling_ BRAID_GUARDED_BY(mutex_) = false;  // a message is being handled
  bool half_closed_ BRAID_GUARDED_BY(mutex_) = false;
  bool ended_ BRAID_GUARDED_BY(mutex_) = false;  // no more messages are sent
  bool draining_ BRAID_GUARDED_BY(mutex_) = false;
  bool cancelled_ BRAID_GUARDED_BY(mutex_) = false;  // by the client, or at the server's end
  std::deque<Slot> slots_ BRAID_GUARDED_BY(mutex_);
  uint64_t first_slot_ BRAID_GUARDED_BY(mutex_) = 0;   // number of slots_.front()
  size_t open_requests_ BRAID_GUARDED_BY(mutex_) = 0;  // their last answer is not yet sent
  // Requests that have not ended, as a doubly linked list.
  Sink* sinks_ BRAID_GUARDED_BY(mutex_) = nullptr;
};

}  // namespace braid
