// A ModelStreamInfer whose first message names a servable that takes streams: all messages of the call go
// into one conversation (ServableStream), whose responses leave as they come.
//
// It takes the call over from GrpcStreamCall, which goes on holding what gRPC needs and passes two events on:
// that the server drains, and that gRPC is done with the call.
//
// Faults of one message are answered in the stream, which goes on; what ends the conversation ends the call
// with its status, behind the responses that came before.
//
// Back-pressure. While more than kPauseBytes or kPauseMessages wait to be sent, the conversation is paused
// and no further message is read, until half of that is left. Nor is one read while the servable does not
// want input. A client that reads nothing costs so much memory, and what is under way when it is told to
// pause; one for which StreamTraffic::kMaxWaitingBytes wait is cut off with UNAVAILABLE.
//
// Threads. Messages are read and pushed on the queue's thread; responses come on the graph's threads, and
// each of these writes directly when no other write is under way. One mutex guards the state and is never
// held across a call into gRPC or the servable. What the conversation has to be told (pause, close, cancel)
// is told by one thread at a time, so that an older word never overtakes a newer one.
//
// Life. gRPC's side ends with the call, the servable's with End(); the object when both have.
#pragma once

#include <grpcpp/grpcpp.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "base/status.h"
#include "protocols/grpc/stream_traffic.h"
#include "protocols/kserve/grpc/service.h"
#include "serving/parameters.h"
#include "serving/servable.h"

namespace braid {

class GrpcGraphStream final : public StreamSink, public std::enable_shared_from_this<GrpcGraphStream> {
 public:
  static constexpr size_t kPauseBytes = size_t{1} << 20;
  static constexpr size_t kPauseMessages = 256;

  struct Setup {
    KserveQueue& kserve;
    // Three that live until `ended`.
    StreamTraffic::Call& call;
    const grpc::ServerContextBase& context;  // of the call
    const Parameters& forwarded;             // headers that become parameters
    bool grpc_errors = false;                // the first error of a message ends the call
    bool draining = false;
    // gRPC's side is over: no operation is under way, and none will be. On the queue's thread.
    std::function<void()> ended;
  };
  explicit GrpcGraphStream(Setup setup);

  // All on the queue's thread but Drain().

  // Opens the conversation with the first message, which the queue has parsed. REQUIRES:
  // servable->get().takes_streams()
  void Begin(WireSegments segments, std::unique_ptr<ServableHandle> servable);
  // gRPC is done with the call: it is answered, or the client has gone.
  void OnDone();
  // The server drains: no more is read, and the call ends when what is under way is answered.
  void Drain();

  void Respond(InferenceResponse response, const std::string& request_id) override;
  void OnWantsInput() override;
  void End(Status status) override;

 private:
  using Claims = StreamTraffic::Claims;

  // Events, on the queue's thread.
  void OnRead(bool ok);
  void OnWritten(bool ok);
  void OnFinished(bool ok);
  void OperationEnded();

  // Opens the conversation, and pushes its first message or says what was wrong with it.
  void Open(WireSegments segments, std::unique_ptr<ServableHandle> handle);
  // Reads message_ and pushes it.
  void HandleMessage();
  // What a later message asks.
  Status ReadMessage(WireSegments segments, Servable& servable, InferenceRequest& request);
  Status BuildMessage(WireSegments segments, Servable& servable, InferenceRequest& request);
  // Pushes a message, or says what was wrong with it, and finds out whether more is wanted.
  void Take(ServableStream& stream, Servable& servable, InferenceRequest& request, Status fault);
  void Refuse(const Status& status, const std::string& id);

  // REQUIRES: mutex_ is held.
  void PushLocked(EncodedMessage message, Claims& claims);
  void AdvanceLocked(Claims& claims);
  // Without the mutex: does what was claimed, and tells the conversation what it has to know.
  void Run(const Claims& claims);
  void Tell();
  // Claims what can be done now, and does it.
  void Advance();
  // Ends the conversation for the client when nothing else can be told any more.
  void EndWithFault(const Status& status) noexcept;

  KserveQueue& kserve_;
  GrpcQueue& queue_;
  const grpc::ServerContextBase& context_;
  const Parameters& forwarded_;
  const bool grpc_errors_;
  const std::function<void()> ended_;
  const int64_t start_ns_;

  GrpcEventOf<GrpcGraphStream, &GrpcGraphStream::OnRead> read_event_{this};
  GrpcEventOf<GrpcGraphStream, &GrpcGraphStream::OnWritten> written_event_{this};
  GrpcEventOf<GrpcGraphStream, &GrpcGraphStream::OnFinished> finished_event_{this};

  // Of the queue's thread.
  grpc::ByteBuffer message_;
  std::string name_;  // that the first message gave
  // Of the servable's calls to the sink, which come one at a time.
  bool responded_ = false;

  std::mutex mutex_;
  // Guarded by mutex_:
  std::shared_ptr<GrpcGraphStream> self_;   // the servable's share, until End()
  std::shared_ptr<Servable> servable_;      // until End(); shared with a message that is being read
  std::shared_ptr<ServableStream> stream_;  // null until it is open
  StreamTraffic traffic_;
  bool handling_ = true;  // a message is being looked at; the first is when all begins
  bool draining_;
  bool stream_ended_ = false;  // End() came, or there never was a conversation
  bool wants_input_ = true;
  uint64_t wants_changes_ = 0;  // calls of OnWantsInput()
  bool pause_ = false;
  // What the conversation was told, and whether a thread is telling it something. It is told at the beginning
  // that it is not paused: one may wait for the first word before it gives any.
  std::optional<bool> told_pause_;
  bool told_close_ = false;
  bool told_cancel_ = false;
  bool telling_ = false;
};

}  // namespace braid
