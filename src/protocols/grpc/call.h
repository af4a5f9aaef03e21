// GrpcCall: one call of a client, unary or a stream, from its head to its end. What answers calls derives
// from it.
//
//   OnMessage()/OnHalfClose()     one for each RequestMessage(); on the I/O thread
//   Send(), Finish()              any thread; what comes behind the first Finish(), or the end, is dropped
//   OnCancelled()                 the client has gone before all was sent, or its deadline is over; on the I/O thread
//
// Flow. A message is given to the call when it has asked for one; what the client sends beyond that stays
// within the window of its stream. What is sent and not taken by the client waits here (waiting()).
//
// Life. Shared by the connection until its stream is over, and by what works for it.
#pragma once

#include <atomic>
#include <boost/container/deque.hpp>
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
  // What the connection knows of a call.
  struct Setup {
    std::shared_ptr<GrpcConnection> connection;  // shared with the other calls
    int32_t stream = 0;
    Http2Head head;
    Authorization authorization;
  };
  // What was sent and is not on its way.
  struct Waiting {
    size_t messages = 0;
    size_t bytes = 0;
  };
  explicit GrpcCall(Setup setup);
  ~GrpcCall() override;
  GrpcCall(const GrpcCall&) = delete;
  GrpcCall& operator=(const GrpcCall&) = delete;

  // The metadata of the client. Constant.
  const Http2Head& head() const { return head_; }
  // What the client may do with which models, beyond its API, which it may use. Constant.
  const Authorization& authorization() const { return authorization_; }

  // --- For its connection.

  // On the I/O thread, without the mutex.
  void Dispatch(GrpcEvent event, GrpcMessage message);
  // These: REQUIRES the connection's mutex.
  // Ends the call with this in place of what it would have answered, which is cancelled.
  void Cut(int code, std::string_view message);
  // Whether a message has begun to come and not ended; ends the call when too little of it came since this
  // was last asked.
  bool CheckMessage();
  // Of SteadyNowNs(); 0: none. Set before the call is told anything.
  int64_t deadline_ns() const { return deadline_ns_; }
  void set_deadline_ns(int64_t deadline_ns) { deadline_ns_ = deadline_ns; }

 protected:
  // Within one of these the call may be answered. What they throw ends it.
  virtual void OnMessage(GrpcMessage message) = 0;
  // The client sends no more.
  virtual void OnHalfClose() = 0;
  // Nothing reaches the client any more, before everything that was to be sent had left. The last event.
  virtual void OnCancelled() = 0;
  // The server drains: a call that stays open without anything under way is to end.
  virtual void OnDrain() {}
  // See NotifyWhenAtMost().
  virtual void OnSent() {}

  // One more message is wanted, beside the first.
  void RequestMessage();
  Waiting waiting() const;
  // OnSent() is called once, when no more than this waits.
  void NotifyWhenAtMost(Waiting most);
  void Send(EncodedMessage message);
  void Finish(const Status& status);
  // The same in two steps: under locks of the caller's, and Flush() without them.
  void Push(EncodedMessage message);
  void PushEnd(const Status& status);
  // Of what waits, all but the message that has begun to leave is dropped.
  void DropWaiting();
  void Flush();
  // Both: the answer of a unary call.
  void SendAndFinish(EncodedMessage message);
  // Whether something could still reach the client; for skipping the work of making it.
  bool open() const { return open_.load(std::memory_order_acquire); }

  GrpcThread& thread() const;
  // Messages are compressed, where the server does that and the client takes it. Before the first is sent.
  void EnableCompression();

 private:
  // Http2Stream; under the connection's mutex, which the analysis does not see.
  void OnData(const Buffer& block, std::string_view bytes) override;
  void OnEnd() override;
  void OnClosed(bool reset) override;
  size_t sendable() const override;
  bool complete() const override;
  void Take(size_t bytes, OutgoingBytes& to) override;
  void AppendTrailers(boost::container::small_vector_base<Http2Field>& fields) override;

  Refusals& refusals() const;
  // `bytes` more, or less, wait to leave.
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
  // The same for a message, which may have to be inflated first. On the I/O thread.
  Status DispatchMessage(GrpcMessage message);
  void InflateElsewhere(std::shared_ptr<GrpcMessage> message);
  // The message that the client has compressed. Errors end the call.
  Result<GrpcMessage> Unpack(const GrpcMessage& message);

  const std::shared_ptr<GrpcConnection> connection_;
  const int32_t stream_;
  const Http2Head head_;
  const Authorization authorization_;
  int64_t deadline_ns_ = 0;
  bool over_ = false;  // OnCancelled() was called; the I/O thread's
  std::atomic<bool> open_{true};
  ContentCoding coding_ = ContentCoding::kIdentity;  // of our messages; constant once one is sent

  struct Incoming {
    unsigned char prefix[5];
    size_t prefix_have = 0;
    size_t left = 0;      // of the message
    size_t recent = 0;    // bytes of it since it was last looked at
    bool seen = false;    // then already
    Buffer gathered;      // of a message that comes in several small pieces
    size_t have = 0;      // there
    GrpcMessage message;  // as far as it is there
  } in_ BRAID_GUARDED_BY(connection_->mutex());
  // Boost's: std::deque allocates before it holds something.
  boost::container::deque<GrpcMessage> ready_ BRAID_GUARDED_BY(connection_->mutex());  // not asked for yet
  size_t requested_ BRAID_GUARDED_BY(connection_->mutex()) = 1;
  size_t unconsumed_ BRAID_GUARDED_BY(connection_->mutex()) =
      0;  // bytes for which the client has no window again
  bool half_closed_ BRAID_GUARDED_BY(connection_->mutex()) = false;
  bool half_close_told_ BRAID_GUARDED_BY(connection_->mutex()) = false;
  std::optional<Waiting> notify_ BRAID_GUARDED_BY(connection_->mutex());
  bool refused_ BRAID_GUARDED_BY(connection_->mutex()) = false;  // what the client still sends is thrown away
  bool too_large_ BRAID_GUARDED_BY(connection_->mutex()) =
      false;  // a message is larger than the server takes
  boost::container::deque<EncodedMessageReader> out_ BRAID_GUARDED_BY(connection_->mutex());
  size_t out_bytes_ BRAID_GUARDED_BY(connection_->mutex()) = 0;
  MemoryCharge out_charge_ BRAID_GUARDED_BY(connection_->mutex());
  bool started_ BRAID_GUARDED_BY(connection_->mutex()) = false;  // the head of the answer is submitted
  bool closed_ BRAID_GUARDED_BY(connection_->mutex()) = false;
  bool cancel_told_ BRAID_GUARDED_BY(connection_->mutex()) = false;
  struct End {
    std::string code;
    std::string message;  // percent-encoded
    bool later = false;   // the same call may well be taken later
  };
  std::optional<End> finish_ BRAID_GUARDED_BY(connection_->mutex());
};

}  // namespace braid
