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
#include "protocols/grpc/message.h"
#include "protocols/http2/session.h"
#include "protocols/net/event_loop.h"
#include "protocols/net/refusals.h"

namespace braid {

class GrpcConnection;
class GrpcThread;

class GrpcCall : public Http2Stream, public std::enable_shared_from_this<GrpcCall> {
 public:
  // What the connection knows of a call.
  struct Setup {
    std::shared_ptr<GrpcConnection> connection;  // shared with the other calls
    int32_t stream = 0;
    Http2Head head;
    Permit permit;
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
  const Permit& permit() const { return permit_; }

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
  friend class GrpcConnection;
  enum class EventKind : unsigned char { kMessage, kHalfClose, kSent, kDrain, kCancelled };

  // Http2Stream; under the connection's mutex.
  void OnData(const Buffer& block, std::string_view bytes) override;
  void OnEnd() override;
  void OnClosed(bool reset) override;
  size_t sendable() const override;
  bool complete() const override { return finish_.has_value(); }
  void Take(size_t bytes, OutgoingBytes& to) override;
  void AppendTrailers(boost::container::small_vector_base<Http2Field>& fields) override;

  // `bytes` more, or less, wait to leave.
  void AddOut(int64_t bytes);
  void ChargeOut();
  Refusals& refusals() const;
  bool IsAtMost(const Waiting& most) const;
  void TakePrefixLocked(std::string_view& bytes);
  void TakeBodyLocked(const Buffer& block, std::string_view& bytes);
  void CompleteMessageLocked();
  void DeliverLocked();
  // Whether a message has begun to come and not ended; ends the call when too little of it came since this
  // was last asked.
  bool CheckMessageLocked();
  // Ends the call with this in place of what it would have answered, which is cancelled.
  void CutLocked(int code, std::string_view message);
  void TellCancelledLocked();
  Status Compress(EncodedMessage& message) const;
  void SendLocked(EncodedMessage message);
  void FinishLocked(int code, std::string_view message);
  void StartLocked();
  // On the I/O thread, without the mutex.
  void Dispatch(EventKind kind, GrpcMessage message);
  // The same for a message, which may have to be inflated first. On the I/O thread.
  Status DispatchMessage(GrpcMessage message);
  void InflateElsewhere(std::shared_ptr<GrpcMessage> message);
  // The message that the client has compressed. Errors end the call.
  Result<GrpcMessage> Unpack(const GrpcMessage& message);

  const std::shared_ptr<GrpcConnection> connection_;
  const int32_t stream_;
  const Http2Head head_;
  const Permit permit_;
  int64_t deadline_ns_ = 0;  // 0: none; set by the connection
  bool over_ = false;        // OnCancelled() was called; the I/O thread's
  std::atomic<bool> open_{true};
  ContentCoding coding_ = ContentCoding::kIdentity;  // of our messages; constant once one is sent

  // Guarded by the connection's mutex.
  struct Incoming {
    unsigned char prefix[5];
    size_t prefix_have = 0;
    size_t left = 0;      // of the message
    size_t recent = 0;    // bytes of it since it was last looked at
    bool seen = false;    // then already
    Buffer gathered;      // of a message that comes in several small pieces
    size_t have = 0;      // there
    GrpcMessage message;  // as far as it is there
  } in_;
  // Boost's: std::deque allocates before it holds something.
  boost::container::deque<GrpcMessage> ready_;  // not asked for yet
  size_t requested_ = 1;
  size_t unconsumed_ = 0;  // bytes for which the client has no window again
  bool half_closed_ = false;
  bool half_close_told_ = false;
  std::optional<Waiting> notify_;
  bool refused_ = false;    // what the client still sends is thrown away
  bool too_large_ = false;  // a message is larger than the server takes
  boost::container::deque<EncodedMessageReader> out_;
  size_t out_bytes_ = 0;
  MemoryCharge out_charge_;
  bool started_ = false;  // the head of the answer is submitted
  bool closed_ = false;
  bool cancel_told_ = false;
  struct End {
    std::string code;
    std::string message;  // percent-encoded
    bool later = false;   // the same call may well be taken later
  };
  std::optional<End> finish_;
};

}  // namespace braid
