// One completion queue with its thread ("brd-grpc-N"): takes calls in, reads requests, and hears what gRPC
// has finished.
//
// Everything that a queue's thread does is short; nothing on it blocks. Calls belong to the queue that took
// them in. When the server stops, a queue ends after the last of its calls has let go of gRPC, however long
// the requests of those calls go on in the backends.
#pragma once

#include <grpcpp/alarm.h>
#include <grpcpp/server_builder.h>

#include <memory>
#include <string_view>
#include <thread>
#include <vector>

#include "protocols/grpc/protobuf_reader.h"
#include "protocols/grpc/server_state.h"
#include "serving/catalog.h"

namespace braid {

// What comes back from the completion queue; gRPC calls it a tag.
class GrpcEvent {
 public:
  // On the queue's thread. `ok` as in grpc::CompletionQueue::Next().
  virtual void Complete(bool ok) = 0;

 protected:
  ~GrpcEvent() = default;
};

// Calls a member function of its owner.
template <class Owner, void (Owner::*Method)(bool)>
class GrpcEventOf final : public GrpcEvent {
 public:
  explicit GrpcEventOf(Owner* owner) : owner_(owner) {}
  void Complete(bool ok) override { (owner_->*Method)(ok); }

 private:
  Owner* owner_;
};

class GrpcQueue {
 public:
  GrpcQueue(GrpcServerState& state, std::unique_ptr<grpc::ServerCompletionQueue> queue, int index);
  // REQUIRES: Stop() was called if Start() was.
  ~GrpcQueue();

  // Starts the thread. REQUIRES: the server is built.
  void Start();
  // Waits until all calls have ended, and ends the thread. REQUIRES: the server is shut down.
  void Stop();

  // All below: on the queue's thread.
  GrpcServerState& state() { return state_; }
  grpc::ServerCompletionQueue* cq() { return queue_.get(); }
  CatalogReader& catalog() { return catalog_; }

  // The parts of `message`, for reading it in place; until ForgetMessage(), which lets go of its memory, or
  // the next message.
  WireSegments Spread(const grpc::ByteBuffer& message);
  void ForgetMessage();

  // Counts what still uses gRPC on this queue: calls waiting for a client, and those that run.
  void CallArmed() { ++calls_; }
  void CallEnded();
  // False once no further calls should wait for clients.
  bool taking_calls() const { return !stopping_; }

 private:
  void Work();
  bool Next(void*& tag, bool& ok);
  void StopRequested(bool ok);

  GrpcServerState& state_;
  std::unique_ptr<grpc::ServerCompletionQueue> queue_;
  const int index_;
  std::thread thread_;

  // Owned by the queue's thread.
  CatalogReader catalog_;
  std::vector<grpc::Slice> slices_;
  std::vector<std::string_view> segments_;
  int64_t calls_ = 0;
  bool stopping_ = false;
  std::vector<std::unique_ptr<GrpcProtocol::QueueState>> protocols_;

  grpc::Alarm stop_alarm_;
  GrpcEventOf<GrpcQueue, &GrpcQueue::StopRequested> stop_event_{this};
};

}  // namespace braid
