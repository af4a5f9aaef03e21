// StreamTraffic: what passes between a ModelStreamInfer call and gRPC, whoever answers the call: at most one
// read and one write at a time, the messages that wait for their turn, the end of the call behind the last of
// them, and when gRPC's side is over.
//
// Its owner decides when to read, what to send and when to end, and has the mutex that guards all this, which
// is never held across a call into gRPC: what can be done is claimed under it, and done after it.
//
//   StreamTraffic::Claims claims;
//   {
//     MutexLock lock(mutex_);
//     traffic_.Push(std::move(message));
//     traffic_.ClaimWrite(claims);
//   }
//   StreamTraffic::Start(setup_, claims);
//
// End. The first End() counts. Nothing is taken in behind it; the call is finished when what waits is
// written. A call that gRPC is done with, or whose write has failed, is dead: what waits is dropped, and
// nothing more can be done with it.
//
// Life. gRPC's side is over when the event of the call's end (AsyncNotifyWhenDone) and those of all
// operations that were claimed have come. Until then the call and its context have to stay.
#pragma once

#include <grpcpp/grpcpp.h>

#include <cstddef>
#include <deque>
#include <optional>

#include "base/log.h"
#include "protocols/grpc/message_builder.h"
#include "protocols/grpc/queue.h"

namespace braid {

class StreamTraffic {
 public:
  // A client that reads nothing costs so much memory, and a message.
  static constexpr size_t kMaxWaitingBytes = size_t{256} << 20;

  using Call = grpc::ServerAsyncReaderWriter<grpc::ByteBuffer, grpc::ByteBuffer>;

  // What is to be done once the mutex is released.
  struct Claims {
    bool read = false;
    bool write = false;
    bool finish = false;
    bool more = false;     // another message is written right after this one
    bool cut_off = false;  // for the log
    EncodedMessage message;
    grpc::Status status;
  };
  // What operations need. All but the log live until gRPC's side is over.
  struct Setup {
    Call& call;
    grpc::ByteBuffer& message;  // is read into
    GrpcEvent& read;
    GrpcEvent& written;
    GrpcEvent& finished;
    Logger& log;
  };
  // Does what was claimed, without the mutex: the operations claimed keep gRPC's side alive until their
  // events have come.
  static void Start(const Setup& setup, const Claims& claims);

  // --- What the owner wants.

  // Lets a message wait for its turn. REQUIRES: open()
  void Push(EncodedMessage message);
  // Ends the call in place of the next message when more than kMaxWaitingBytes wait, and drops them. False
  // when it does not. REQUIRES: open()
  bool CutOff(Claims& claims);
  // The call ends with this behind what waits.
  void End(grpc::Status status);

  // Each claims its operation if it can be started now, and else does nothing.
  void ClaimRead(Claims& claims);
  void ClaimWrite(Claims& claims);
  // The finish that End() asked for, and one with a status where nothing did.
  void ClaimEnd(Claims& claims);
  void ClaimFinish(grpc::Status status, Claims& claims);

  // --- What gRPC says.

  void OnRead(bool ok);
  void OnWritten(bool ok);
  // The event of the call's end. Counts as an operation until OperationEnded().
  void OnDone();
  // To be called as the last thing for each event of an operation, and for that of the call's end. True when
  // gRPC's side is over.
  bool OperationEnded();

  // --- How things stand.

  // Whether a message could still reach the client.
  bool open() const { return !ended() && !finishing_; }
  // Whether End() was called or the call is dead.
  bool ended() const { return dead_ || end_; }
  bool dead() const { return dead_; }
  // Whether the client sends nothing more.
  bool half_closed() const { return half_closed_; }
  size_t waiting() const { return waiting_.size(); }
  size_t waiting_bytes() const { return waiting_bytes_; }

 private:
  void DropWaiting();
  void Die();

  int operations_ = 0;  // claimed, and not ended yet
  bool reading_ = false;
  bool writing_ = false;
  bool head_sent_ = false;  // a write has ended, so the initial metadata is out
  bool half_closed_ = false;
  bool finishing_ = false;  // the finish was claimed
  bool dead_ = false;
  bool done_ = false;
  std::optional<grpc::Status> end_;
  std::deque<EncodedMessage> waiting_;
  size_t waiting_bytes_ = 0;
};

}  // namespace braid
