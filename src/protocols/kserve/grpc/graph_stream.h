// The conversation of a ModelStreamInfer with a servable that takes streams, which the call's first message
// names: all messages of the call go into one ServableStream, whose responses leave as they come.
//
// Faults of one message are answered in the stream, which goes on; what ends the conversation ends the call
// with its status, behind the responses that came before.
//
// Back-pressure. While more than kPauseBytes or kPauseMessages wait to be sent, the conversation is paused
// and no further message is read, until half of that is left. Nor is one read while the servable does not
// want input. A client that reads nothing costs so much memory, and what is under way when it is told to
// pause; one for which GrpcStreamCall::kMaxWaitingBytes wait is cut off with UNAVAILABLE.
//
// Threads. Messages are read and pushed on the I/O thread; responses come on the graph's threads. All
// state is guarded by the mutex of the call. What the conversation has to be told (pause, close, cancel) is
// told by one thread at a time, so that an older word never overtakes a newer one.
//
// Life. Part of its call, in which the conversation has a share until End().
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "base/serial_delivery.h"
#include "base/status.h"
#include "protocols/kserve/grpc/stream_call.h"
#include "serving/request.h"
#include "serving/servable.h"

namespace braid {

class GrpcGraphStream final : public StreamSink {
 public:
  static constexpr size_t kPauseBytes = size_t{1} << 20;
  static constexpr size_t kPauseMessages = 256;

  explicit GrpcGraphStream(GrpcStreamCall& call);

  // ---- on the I/O thread ----

  // Opens the conversation with the first message, which is parsed. An error is the end of the
  // call; then Detach() follows. REQUIRES: servable->get().takes_streams()
  Status Open(WireSegments segments, std::unique_ptr<ServableHandle> servable);
  // The conversation has no share in the call, if it was not opened.
  void Detach();
  // Takes a further message.
  void Handle(WireSegments segments);

  // ---- for the call ----

  // Sees how much waits to be sent, and whether it is to hear when there is less; whether another message may
  // be read, as far as the conversation is concerned. REQUIRES: the call's mutex is held.
  bool WantsMessageLocked(const GrpcCall::Waiting& waiting, GrpcStreamCall::Next& next);
  // Tells the conversation what it does not know yet.
  void Tell() BRAID_EXCLUDES(call_.mutex_);

  void Respond(InferenceResponse response, const std::string& request_id) override;
  void OnWantsInput() override;
  void End(Status status) override;

 private:
  // Whether a later message means the servable of the first one.
  Status CheckServable(const ParsedRequest& parsed) const;
  Status BuildMessage(WireSegments segments, Servable& servable, InferenceRequest& request);
  // Pushes a message, or says what was wrong with it, which ends with `ending`, and finds out whether more is wanted.
  void Take(ServableStream& stream, Servable& servable, InferenceRequest& request, Status fault,
            std::string_view ending);
  // Lets it wait for its turn, if the client can still get it.
  void Send(GrpcStreamCall::Outgoing outgoing) BRAID_EXCLUDES(call_.mutex_);

  GrpcStreamCall& call_;
  const int64_t start_ns_;
  std::string name_;        // that the first message gave; of the I/O thread
  bool responded_ = false;  // of the servable's calls to the sink, which come one at a time

  // Set while the conversation has its share in the call; shared with a message that is being read.
  std::shared_ptr<Servable> servable_ BRAID_GUARDED_BY(call_.mutex_);
  std::shared_ptr<GrpcStreamCall> share_ BRAID_GUARDED_BY(call_.mutex_);   // as long
  std::shared_ptr<ServableStream> stream_ BRAID_GUARDED_BY(call_.mutex_);  // null until it is open
  bool stream_ended_ BRAID_GUARDED_BY(call_.mutex_) = false;  // End() came, or there never was a conversation
  bool wants_input_ BRAID_GUARDED_BY(call_.mutex_) = true;
  uint64_t wants_changes_ BRAID_GUARDED_BY(call_.mutex_) = 0;  // calls of OnWantsInput()
  bool pause_ BRAID_GUARDED_BY(call_.mutex_) = false;
  // What the conversation was told, and whether a thread is telling it something. It is told at the beginning
  // that it is not paused: one may wait for the first word before it gives any.
  std::optional<bool> told_pause_ BRAID_GUARDED_BY(call_.mutex_);
  bool told_close_ BRAID_GUARDED_BY(call_.mutex_) = false;
  bool told_cancel_ BRAID_GUARDED_BY(call_.mutex_) = false;
  SerialDelivery delivery_ BRAID_GUARDED_BY(call_.mutex_);  // to the stream
};

}  // namespace braid
