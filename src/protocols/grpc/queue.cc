#include "protocols/grpc/queue.h"

#include "base/guard.h"
#include "base/thread.h"
#include "protocols/grpc/reflection.h"

namespace braid {

GrpcQueue::GrpcQueue(GrpcServerState& state, std::unique_ptr<grpc::ServerCompletionQueue> queue, int index)
    : state_(state), queue_(std::move(queue)), index_(index), catalog_(state.catalog) {}

GrpcQueue::~GrpcQueue() {
  if (thread_.joinable()) {
    Stop();
    return;
  }
  // Never started: gRPC wants the queue emptied all the same.
  if (queue_ == nullptr) return;
  queue_->Shutdown();
  void* tag = nullptr;
  bool ok = false;
  while (queue_->Next(&tag, &ok)) {
  }
}

void GrpcQueue::Start() {
  thread_ = StartThread("brd-grpc-" + std::to_string(index_), [this] { Work(); });
}

void GrpcQueue::Stop() {
  if (!thread_.joinable()) return;
  // The queue is shut down by its own thread: nobody else knows when the last operation has been started.
  stop_alarm_.Set(queue_.get(), gpr_now(GPR_CLOCK_MONOTONIC), static_cast<GrpcEvent*>(&stop_event_));
  thread_.join();
  queue_.reset();
}

void GrpcQueue::Work() {
  ArmReflectionCall(*this);
  for (GrpcProtocol* protocol : state_.protocols) protocols_.push_back(protocol->Arm(*this));
  void* tag = nullptr;
  bool ok = false;
  while (Next(tag, ok)) {
    GuardedOrReport("brd-grpc", [&] { static_cast<GrpcEvent*>(tag)->Complete(ok); });
  }
}

bool GrpcQueue::Next(void*& tag, bool& ok) {
  // gRPC's headers bring code of the events into ours; one that got no memory would be lost, and its call
  // with it.
  const PatientAllocation patience;
  return queue_->Next(&tag, &ok);
}

void GrpcQueue::StopRequested(bool) {
  stopping_ = true;
  if (calls_ == 0) queue_->Shutdown();
}

void GrpcQueue::CallEnded() {
  --calls_;
  if (stopping_ && calls_ == 0) queue_->Shutdown();
}

WireSegments GrpcQueue::Spread(const grpc::ByteBuffer& message) {
  segments_.clear();
  // The message is gRPC's own, so that this fails for an empty one alone.
  if (!message.Dump(&slices_).ok()) slices_.clear();
  for (const grpc::Slice& slice : slices_) {
    segments_.emplace_back(reinterpret_cast<const char*>(slice.begin()), slice.size());
  }
  return segments_;
}

void GrpcQueue::ForgetMessage() {
  segments_.clear();
  slices_.clear();
}

}  // namespace braid
