#include "protocols/kserve/grpc_queue.h"

#include "base/guard.h"
#include "base/thread.h"
#include "protocols/kserve/grpc_control_call.h"
#include "protocols/kserve/grpc_extension.h"
#include "protocols/kserve/grpc_infer_call.h"
#include "protocols/kserve/grpc_reflection.h"
#include "protocols/kserve/grpc_stream_call.h"

namespace braid {
namespace {

// How many calls wait for a client, so that taking one in does not wait for the next to be prepared.
constexpr int kArmedInferCalls = 64;
constexpr int kArmedStreamCalls = 4;
constexpr int kArmedControlCalls = 2;

}  // namespace

GrpcQueue::GrpcQueue(GrpcServerState& state, std::unique_ptr<grpc::ServerCompletionQueue> queue, int index)
    : state_(state), queue_(std::move(queue)), index_(index), catalog_(state.context.catalog) {
  idle_infer_calls_.reserve(kMaxIdleInferCalls);
}

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
  for (int i = 0; i < kArmedInferCalls; ++i) GrpcInferCall::Arm(*this);
  for (int i = 0; i < kArmedStreamCalls; ++i) GrpcStreamCall::Arm(*this);
  for (int i = 0; i < kArmedControlCalls; ++i) ArmControlCalls(*this);
  ArmReflectionCall(*this);
  for (GrpcExtension* extension : state_.extensions) extension->Arm(*this);
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

void GrpcQueue::Spread(const grpc::ByteBuffer& message) {
  scratch_.segments.clear();
  // The message is gRPC's own, so that this fails for an empty one alone.
  if (!message.Dump(&scratch_.slices).ok()) scratch_.slices.clear();
  for (const grpc::Slice& slice : scratch_.slices) {
    scratch_.segments.emplace_back(reinterpret_cast<const char*>(slice.begin()), slice.size());
  }
}

void GrpcQueue::ForgetMessage() {
  scratch_.segments.clear();
  scratch_.slices.clear();
}

}  // namespace braid
