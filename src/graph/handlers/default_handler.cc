// DefaultInputStreamHandler: all inputs belong together in time. With a batch size, the node runs only when
// that number of calls is ready, and then that number of times.
#include <cstdint>
#include <deque>

#include "graph/handlers/handler_kinds.h"
#include "graph/handlers/sync_set.h"
#include "mediapipe/stream_handlers.pb.h"

namespace braid::graph {
namespace {

class DefaultHandler final : public InputHandler {
 public:
  explicit DefaultHandler(SyncSet set) : set_(std::move(set)) {}

  HandlerStep Next(NodeInputs& inputs) override {
    const HandlerStep step = set_.Look(inputs);
    if (step.kind == HandlerStep::Kind::kProcess) set_.Take(inputs, step.timestamp);
    return step;
  }

 private:
  SyncSet set_;
};

class BatchHandler final : public InputHandler {
 public:
  BatchHandler(SyncSet set, size_t batch_size) : set_(std::move(set)), batch_size_(batch_size) {}

  HandlerStep Next(NodeInputs& inputs) override {
    HandlerStep step = set_.Look(inputs);
    while (step.kind == HandlerStep::Kind::kProcess) {
      Collect(inputs, step.timestamp);
      step = set_.Look(inputs);
    }
    if (running_ == 0 && calls_.size() >= batch_size_) running_ = batch_size_;
    if (running_ == 0 && step.kind == HandlerStep::Kind::kClose) running_ = calls_.size();
    if (running_ == 0) {
      if (!calls_.empty()) step.timestamp = calls_.front().timestamp;
      return step;
    }
    --running_;
    Call call = std::move(calls_.front());
    calls_.pop_front();
    for (int input = 0; input < inputs.size(); ++input) {
      inputs.Give(input, std::move(call.packets[static_cast<size_t>(input)]));
    }
    return {HandlerStep::Kind::kProcess, call.timestamp};
  }

 private:
  struct Call {
    Timestamp timestamp;
    std::vector<Packet> packets;
  };

  void Collect(NodeInputs& inputs, Timestamp at) {
    Call call{at, std::vector<Packet>(static_cast<size_t>(inputs.size()))};
    for (int input = 0; input < inputs.size(); ++input) {
      const PacketQueue& queue = inputs.queue(input);
      if (!queue.empty() && queue.front().timestamp() == at) {
        call.packets[static_cast<size_t>(input)] = inputs.Pop(input);
      }
    }
    set_.Take(inputs, at);
    calls_.push_back(std::move(call));
  }

  SyncSet set_;
  size_t batch_size_;
  std::deque<Call> calls_;
  size_t running_ = 0;  // calls of the running batch
};

class DefaultPlan final : public InputHandlerPlan {
 public:
  DefaultPlan(SyncSet set, size_t batch_size) : set_(std::move(set)), batch_size_(batch_size) {}
  std::unique_ptr<InputHandler> Make() const override {
    if (batch_size_ > 1) return std::make_unique<BatchHandler>(set_, batch_size_);
    return std::make_unique<DefaultHandler>(set_);
  }

 private:
  SyncSet set_;
  size_t batch_size_;
};

}  // namespace

HandlerPlan PlanDefaultHandler(const ::mediapipe::MediaPipeOptions& options, const Contract& contract) {
  const int32_t batch_size =
      options.GetExtension(::mediapipe::DefaultInputStreamHandlerOptions::ext).batch_size();
  if (batch_size < 1) {
    return InvalidArgumentError("batch_size of DefaultInputStreamHandler is " + std::to_string(batch_size) +
                                "; expected 1 or more");
  }
  return HandlerPlan(
      std::make_shared<const DefaultPlan>(SyncSet::Of(contract), static_cast<size_t>(batch_size)));
}

}  // namespace braid::graph
