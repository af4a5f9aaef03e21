// GrpcGraphStream: a ModelStreamInfer call that is one conversation with a servable. The call's first message
// names that servable. All messages go into one ServableStream, and its responses are sent as they arrive.
//
// A fault of one message is answered in the stream, which goes on. The end of the conversation ends the call
// with its status, after the earlier responses.
//
// Backpressure. While more than kPauseBytes or kPauseMessages wait to be sent, the conversation is paused and
// no further message is read. Both resume at half of these limits. Reading also stops while the servable does
// not want input. A client that reads nothing costs this memory and the work in flight at the pause. It is
// cut off with UNAVAILABLE when more than GrpcStreamCall::kMaxWaitingBytes wait for it.
//
// Threads. Messages are read and pushed on the I/O thread; responses arrive on the graph's threads. The
// call's mutex guards all state. One thread at a time notifies the conversation (pause, close, cancel), so
// that an older notification never overtakes a newer one.
//
// Ownership. The call owns this object. The conversation shares ownership of the call until End().
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

  // Opens the conversation with the first message, which is already parsed. An error ends the call; Detach()
  // must follow. REQUIRES: servable->get().takes_streams().
  Status Open(WireSegments segments, std::unique_ptr<ServableHandle> servable);
  // Releases the conversation's share of the call if Open() failed.
  void Detach();
  // Pushes a further message.
  void Handle(WireSegments segments);

  // ---- for the call ----

  // Pauses or resumes the conversation by the amount that waits to be sent, and sets `next` so that a
  // decrease is notified. Returns whether the conversation accepts another message. REQUIRES: the call's
  // mutex is held.
  bool WantsMessageLocked(const GrpcCall::Waiting& waiting, GrpcStreamCall::Next& next);
  // Notifies the conversation of pending changes: pause, close or cancel.
  void Tell() BRAID_EXCLUDES(call_.mutex_);

  void Respond(InferenceResponse response, const std::string& request_id) override;
  void OnWantsInput() override;
  void End(Status status) override;

 private:
  // Checks that a later message names the servable of the first one.
  Status CheckServable(const ParsedRequest& parsed) const;
  Status BuildMessage(WireSegments segments, Servable& servable, InferenceRequest& request);
  // Pushes a message, or answers its fault with a text that ends in `ending`. Updates wants_input_.
  void Take(ServableStream& stream, Servable& servable, InferenceRequest& request, Status fault,
            std::string_view ending);
  // Queues a message for sending, unless the client can no longer receive it.
  void Send(GrpcStreamCall::Outgoing outgoing) BRAID_EXCLUDES(call_.mutex_);

  GrpcStreamCall& call_;
  const int64_t start_ns_;
  std::string name_;        // from the first message; used on the I/O thread
  bool responded_ = false;  // used in the servable's calls to the sink, which are serial

  // Set while the conversation shares ownership of the call; shared with a message that is being read.
  std::shared_ptr<Servable> servable_ BRAID_GUARDED_BY(call_.mutex_);
  std::shared_ptr<GrpcStreamCall> share_ BRAID_GUARDED_BY(call_.mutex_);   // set together with servable_
  std::shared_ptr<ServableStream> stream_ BRAID_GUARDED_BY(call_.mutex_);  // null until it is open
  bool stream_ended_ BRAID_GUARDED_BY(call_.mutex_) = false;  // after End(), or without a conversation
  bool wants_input_ BRAID_GUARDED_BY(call_.mutex_) = true;
  uint64_t wants_changes_ BRAID_GUARDED_BY(call_.mutex_) = 0;  // calls of OnWantsInput()
  bool pause_ BRAID_GUARDED_BY(call_.mutex_) = false;
  // The notifications sent so far, and whether a thread is sending one. The first one always says "not
  // paused", because a conversation may wait for it before it emits anything.
  std::optional<bool> told_pause_ BRAID_GUARDED_BY(call_.mutex_);
  bool told_close_ BRAID_GUARDED_BY(call_.mutex_) = false;
  bool told_cancel_ BRAID_GUARDED_BY(call_.mutex_) = false;
  SerialDelivery delivery_ BRAID_GUARDED_BY(call_.mutex_);  // to the stream
};

}  // namespace braid
