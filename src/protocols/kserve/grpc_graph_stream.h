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
// pause; one for which kMaxWaitingBytes wait is cut off with UNAVAILABLE.
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
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "base/status.h"
#include "protocols/kserve/grpc_message_builder.h"
#include "protocols/kserve/grpc_queue.h"
#include "serving/parameters.h"
#include "serving/servable.h"

namespace braid {

class GrpcGraphStream final : public StreamSink, public std::enable_shared_from_this<GrpcGraphStream> {
 public:
  static constexpr size_t kPauseBytes = size_t{1} << 20;
  static constexpr size_t kPauseMessages = 256;
  static constexpr size_t kMaxWaitingBytes = size_t{256} << 20;

  using Call = grpc::ServerAsyncReaderWriter<grpc::ByteBuffer, grpc::ByteBuffer>;
  struct Setup {
    GrpcQueue& queue;
    // Three that live until `ended`.
    Call& call;
    const grpc::ServerContextBase& context;  // of the call
    const Parameters& forwarded;             // headers that become parameters
    bool grpc_errors = false;                // the first error of a message ends the call
    bool draining = false;
    // gRPC's side is over: no operation is under way, and none will be. On the queue's thread.
    std::function<void()> ended;
  };
  explicit GrpcGraphStream(Setup setup);

  // All on the queue's thread but Drain().

  // Opens the conversation with the first message, which is in the queue's scratch, parsed. REQUIRES:
  // servable->get().takes_streams()
  void Begin(std::unique_ptr<ServableHandle> servable);
  // gRPC is done with the call: it is answered, or the client has gone.
  void OnDone();
  // The server drains: no more is read, and the call ends when what is under way is answered.
  void Drain();

  void Respond(InferenceResponse response, const std::string& request_id) override;
  void OnWantsInput() override;
  void End(Status status) override;

 private:
  // What is to be done once the mutex is released.
  struct Next {
    bool read = false;
    bool write = false;
    bool finish = false;
    bool more = false;  // another message is written right after this one
    bool cut_off = false;
    EncodedMessage message;
    grpc::Status status;
  };

  // Events, on the queue's thread.
  void OnRead(bool ok);
  void OnWritten(bool ok);
  void OnFinished(bool ok);
  void OperationEnded();

  // Reads message_ and pushes it.
  void HandleMessage();
  // What a later message asks, out of the queue's scratch.
  Status ReadMessage(Servable& servable, InferenceRequest& request);
  Status BuildMessage(Servable& servable, InferenceRequest& request);
  // Pushes a message, or says what was wrong with it, and finds out whether more is wanted.
  void Take(ServableStream& stream, Servable& servable, InferenceRequest& request, Status fault);
  void Refuse(const Status& status, const std::string& id);

  // REQUIRES: mutex_ is held.
  void PushLocked(EncodedMessage message, Next& next);
  void EndLocked(grpc::Status status);
  void DieLocked();
  void AdvanceLocked(Next& next);
  // Without the mutex: does what was claimed, and tells the conversation what it has to know.
  void Run(Next& next);
  void Tell();
  // Claims what can be done now, and does it.
  void Advance();

  GrpcQueue& queue_;
  Call& call_;
  const grpc::ServerContextBase& context_;
  const Parameters& forwarded_;
  const bool grpc_errors_;
  const std::function<void()> ended_;
  Logger& log_;
  const int64_t start_ns_;

  // Of the queue's thread.
  grpc::ByteBuffer message_;
  std::string name_;  // that the first message gave
  bool done_ = false;
  // Of the servable's calls to the sink, which come one at a time.
  bool responded_ = false;

  std::mutex mutex_;
  // Guarded by mutex_:
  std::shared_ptr<GrpcGraphStream> self_;   // the servable's share, until End()
  std::shared_ptr<Servable> servable_;      // until End(); shared with a message that is being read
  std::shared_ptr<ServableStream> stream_;  // null until it is open
  int operations_ = 0;                      // reads, writes and the finish that gRPC has not returned
  bool reading_ = false;
  bool handling_ = true;  // a message is being looked at; the first is when all begins
  bool writing_ = false;
  bool head_sent_ = false;  // a write has ended, so the initial metadata is out
  bool half_closed_ = false;
  bool draining_;
  bool dead_ = false;                // nothing more can be sent
  bool finishing_ = false;           // Finish was claimed
  bool stream_ended_ = false;        // End() came, or there never was a conversation
  std::optional<grpc::Status> end_;  // the call ends with this as soon as what waits is written
  std::deque<EncodedMessage> waiting_;
  size_t waiting_bytes_ = 0;
  bool wants_input_ = true;
  uint64_t wants_changes_ = 0;  // calls of OnWantsInput()
  bool pause_ = false;
  // What the conversation was told, and whether a thread is telling it something. It is told at the beginning
  // that it is not paused: one may wait for the first word before it gives any.
  std::optional<bool> told_pause_;
  bool told_close_ = false;
  bool told_cancel_ = false;
  bool telling_ = false;

  GrpcEventOf<GrpcGraphStream, &GrpcGraphStream::OnRead> read_event_{this};
  GrpcEventOf<GrpcGraphStream, &GrpcGraphStream::OnWritten> written_event_{this};
  GrpcEventOf<GrpcGraphStream, &GrpcGraphStream::OnFinished> finished_event_{this};
};

}  // namespace braid
