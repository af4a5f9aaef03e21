// GrpcCall: one call of a client, unary or a stream, from its head to its end. Base class of all calls.
//
//   OnMessage()/OnHalfClose()     one for each RequestMessage(); on the I/O thread
//   Send(), Finish()              any thread; messages after the first Finish() or after the end are dropped
//   OnCancelled()                 the client left before the end, or the deadline expired; on the I/O thread
//
// Flow control. The call receives a message only after it has requested one. Further input stays within the
// window of its stream. Messages that the client has not taken wait here (waiting()).
//
// Ownership. The connection shares the call until its stream is over. Work for the call shares it too.
#pragma once

#include <atomic>
#include <boost/container/deque.hpp>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "base/memory_use.h"
#include "base/status.h"
#include "protocols/access/access_control.h"
#include "protocols/grpc/connection.h"
#include "protocols/grpc/message.h"
#include "protocols/http2/session.h"
#include "protocols/net/refusals.h"

namespace braid {

class GrpcThread;

class GrpcCall : public Http2Stream, public std::enable_shared_from_this<GrpcCall> {
 public:
  // The arguments of a call's constructor.
  struct Setup {
    std::shared_ptr<GrpcConnection> connection;  // shared with the other calls
    int32_t stream = 0;
    Http2Head head;
    Authorization authorization;
  };
  // Output that has not left yet.
  struct Waiting {
    size_t messages = 0;
    size_t bytes = 0;
  };
  explicit GrpcCall(Setup setup);
  ~GrpcCall() override;
  GrpcCall(const GrpcCall&) = delete;
  GrpcCall& operator=(const GrpcCall&) = delete;

  // The client's metadata. Constant.
  const Http2Head& head() const { return head_; }
  // The client's rights. The right to the call's API was checked; its models must be checked with this.
  // Constant.
  const Authorization& authorization() const { return authorization_; }

  // --- For its connection.

  // Call on the I/O thread, without the mutex.
  void Dispatch(GrpcEvent event, GrpcMessage message);
  // REQUIRES for the functions below: the connection's mutex is held.
  // Ends the call with this status and cancels its work. Drops output that has not left.
  void Cut(int code, std::string_view message);
  // Whether a message has arrived in part. Ends the call if too little of it arrived since the last check.
  bool CheckMessage();
  // A SteadyNowNs() time; 0: no deadline. Set before the call receives any event.
  int64_t deadline_ns() const { return deadline_ns_; }
  void set_deadline_ns(int64_t deadline_ns) { deadline_ns_ = deadline_ns; }

 protected:
  // The call may finish within these functions. An exception ends it.
  virtual void OnMessage(GrpcMessage message) = 0;
  // The client has ended its side.
  virtual void OnHalfClose() = 0;
  // The client has gone before all output had left, so nothing reaches it any more. The last event.
  virtual void OnCancelled() = 0;
  // The server drains. A call that is open without running work must end.
  virtual void OnDrain() {}
  // See NotifyWhenAtMost().
  virtual void OnSent() {}

  // Requests one more message. The first is requested by default.
  void RequestMessage();
  Waiting waiting() const;
  // Requests one call of OnSent(), when no more than `most` waits.
  void NotifyWhenAtMost(Waiting most);
  void Send(EncodedMessage message);
  void Finish(const Status& status);
  // Send() and Finish() without Flush(), for callers that hold locks. Call Flush() without locks afterwards.
  void Push(EncodedMessage message);
  void PushEnd(const Status& status);
  // Drops waiting messages, except one that has begun to leave.
  void DropWaiting();
  void Flush();
  // Send() and Finish() in one step, for the response of a unary call.
  void SendAndFinish(EncodedMessage message);
  // Whether output could still reach the client. Lets callers skip useless work.
  bool open() const { return open_.load(std::memory_order_acquire); }

  // Has a model loaded whose lookup failed with Fault::kLoadsOnDemand. Then calls `then` with the result on
  // the I/O thread, unless the call is over. `since_ns`: see OnDemandLoader::Load(). An exception of `then`
  // ends the call.
  void LoadOnDemand(const std::string& model, int64_t since_ns, std::function<void(const Status&)> then);

  GrpcThread& thread() const;
  // Compresses messages if the server is configured so and the client accepts it. Call it before the first
  // message is sent.
  void EnableCompression();

 private:
  // Http2Stream. Called under the connection's mutex, which the thread analysis does not see.
  void OnData(const Buffer& block, std::string_view bytes) override;
  void OnEnd() override;
  void OnClosed(bool reset) override;
  size_t sendable() const override;
  bool complete() const override;
  void Take(size_t bytes, OutgoingBytes& to) override;
  void AppendTrailers(boost::container::small_vector_base<Http2Field>& fields) override;

  Refusals& refusals() const;
  // Adds `bytes`, which may be negative, to the output that waits.
  void AddOutLocked(int64_t bytes) BRAID_REQUIRES(connection_->mutex());
  void ChargeOutLocked() BRAID_REQUIRES(connection_->mutex());
  bool IsAtMostLocked(const Waiting& most) const BRAID_REQUIRES(connection_->mutex());
  void TakePrefixLocked(std::string_view& bytes) BRAID_REQUIRES(connection_->mutex());
  void TakeBodyLocked(const Buffer& block, std::string_view& bytes) BRAID_REQUIRES(connection_->mutex());
  void CompleteMessageLocked() BRAID_REQUIRES(connection_->mutex());
  void DeliverLocked() BRAID_REQUIRES(connection_->mutex());
  void CutLocked(int code, std::string_view message) BRAID_REQUIRES(connection_->mutex());
  void TellCancelledLocked() BRAID_REQUIRES(connection_->mutex());
  Status Compress(EncodedMessage& message) const;
  void SendLocked(EncodedMessage message) BRAID_REQUIRES(connection_->mutex());
  void FinishLocked(int code, std::string_view message) BRAID_REQUIRES(connection_->mutex());
  void StartLocked() BRAID_REQUIRES(connection_->mutex());
  // Dispatch() of a message, which may have to be inflated first. Call on the I/O thread.
  Status DispatchMessage(GrpcMessage message);
  void InflateElsewhere(std::shared_ptr<GrpcMessage> message);
  // Inflates a message that the client has compressed. Errors end the call.
  Result<GrpcMessage> Unpack(const GrpcMessage& message);

  const std::shared_ptr<GrpcConnection> connection_;
  const int32_t stream_;
  const Http2Head head_;
  const Authorization authorization_;
  int64_t deadline_ns_ = 0;
  bool over_ = false;  // OnCancelled() was called; used by the I/O thread only
  std::atomic<bool> open_{true};
  ContentCoding coding_ = ContentCoding::kIdentity;  // of sent messages; constant once one was sent

  struct Incoming {
    unsigned char prefix[5];
    size_t prefix_have = 0;
    size_t left = 0;      // bytes until the message ends
    size_t recent = 0;    // bytes since the last check
    bool seen = false;    // whether the message was checked before
    Buffer gathered;      // for a message that arrives in several small pieces
    size_t have = 0;      // bytes in `gathered`
    GrpcMessage message;  // the pieces so far
  } in_ BRAID_GUARDED_BY(connection_->mutex());
  // Boost's, because std::deque allocates even while it is empty.
  boost::container::deque<GrpcMessage> ready_ BRAID_GUARDED_BY(connection_->mutex());  // not requested yet
  size_t requested_ BRAID_GUARDED_BY(connection_->mutex()) = 1;
  size_t unconsumed_ BRAID_GUARDED_BY(connection_->mutex()) =
      0;  // bytes for which the client's window was not extended
  bool half_closed_ BRAID_GUARDED_BY(connection_->mutex()) = false;
  bool half_close_told_ BRAID_GUARDED_BY(connection_->mutex()) = false;
  std::optional<Waiting> notify_ BRAID_GUARDED_BY(connection_->mutex());
  bool refused_ BRAID_GUARDED_BY(connection_->mutex()) = false;    // further input is discarded
  bool too_large_ BRAID_GUARDED_BY(connection_->mutex()) = false;  // a message is larger than the limit
  boost::container::deque<EncodedMessageReader> out_ BRAID_GUARDED_BY(connection_->mutex());
  size_t out_bytes_ BRAID_GUARDED_BY(connection_->mutex()) = 0;
  MemoryCharge out_charge_ BRAID_GUARDED_BY(connection_->mutex());
  bool started_ BRAID_GUARDED_BY(connection_->mutex()) = false;  // the response's head was submitted
  bool closed_ BRAID_GUARDED_BY(connection_->mutex()) = false;
  bool cancel_told_ BRAID_GUARDED_BY(connection_->mutex()) = false;
  struct End {
    std::string code;
    std::string message;  // percent-encoded
    bool later = false;   // the client may retry the call later
  };
  std::optional<End> finish_ BRAID_GUARDED_BY(connection_->mutex());
};

}  // namespace braid
