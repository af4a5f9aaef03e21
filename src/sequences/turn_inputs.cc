#include "sequences/turn_inputs.h"

#include <algorithm>
#include <cstring>

#include "base/clock.h"

namespace braid {
namespace {

// From this size on a copy goes into a block of memory that the instance can see.
constexpr size_t kSmallBytes = 1024;

// Copies into separate memory. If the allocator has none left, copies to the heap, and the backend reports
// the lack.
Buffer Own(const Buffer& bytes, BufferAllocator& allocator) {
  if (bytes.size() > kSmallBytes) {
    if (Result<Buffer> block = allocator.Allocate(bytes.size()); block.ok()) {
      std::memcpy(block->mutable_data(), bytes.data(), bytes.size());
      return std::move(*block);
    }
  }
  return CopyToHeap({bytes.data(), bytes.size()});
}

// Returns zeros, or empty strings, of the same shape.
Tensor Zeros(const Tensor& like, BufferAllocator& allocator) {
  Tensor zeros{like.name, like.type, like.shape, {}};
  size_t size = like.data.size();
  if (like.type == DataType::kBytes) {
    size = static_cast<size_t>(ElementCount(like.shape).value_or(0)) * sizeof(uint32_t);
  }
  if (size == 0) return zeros;
  Result<Buffer> block = allocator.Allocate(size);
  if (!block.ok()) block = HeapAllocator().Allocate(size);
  if (!block.ok()) return zeros;
  std::memset(block->mutable_data(), 0, size);
  zeros.data = std::move(*block);
  return zeros;
}

}  // namespace

void TurnInputs::Add(const Buffer& id_bytes, const std::vector<Tensor>& states, bool load,
                     InferenceRequest& request) const {
  request.scheduling.own_inputs = static_cast<uint32_t>(request.inputs.size());
  request.scheduling.own_outputs = static_cast<uint32_t>(request.requested_outputs.size());
  controls_.Append({.start = request.sequence_start, .end = request.sequence_end, .ready = true}, id_bytes,
                   request.inputs);
  state_.Append(states, load, request.inputs);
  state_.AskFor(request);
}

void TurnInputs::AddLone(InferenceRequest& request) const {
  request.sequence_start = request.sequence_end = true;
  Add(controls_.no_id(), state_.initial(), false, request);
}

std::unique_ptr<InferenceRequest> TurnInputs::MakePadding() const {
  auto request = std::make_unique<InferenceRequest>();
  request->model_name = info_.name;
  request->model_version = info_.version;
  request->sink = &nowhere_;
  request->start_ns = request->queue_start_ns = SteadyNowNs();
  controls_.Append({}, controls_.no_id(), request->inputs);
  state_.Append(state_.initial(), false, request->inputs);
  return request;
}

void TurnInputs::Complete(Execution& execution, BufferAllocator& allocator) const {
  const auto real = std::find_if(execution.requests.begin(), execution.requests.end(),
                                 [this](const auto& request) { return !IsPadding(*request); });
  if (real == execution.requests.end()) return;
  const std::vector<Tensor>& like = (*real)->inputs;
  const size_t own = (*real)->scheduling.own_inputs;
  for (auto& request : execution.requests) {
    auto& inputs = request->inputs;
    for (size_t i = request->scheduling.own_inputs + controls_.count(); i < inputs.size(); ++i) {
      inputs[i].data = Own(inputs[i].data, allocator);
    }
    if (!IsPadding(*request)) continue;
    for (size_t i = 0; i < own; ++i) inputs.push_back(Zeros(like[i], allocator));
  }
}

bool TurnInputs::TakeState(const InferenceRequest& request, InferenceResponse& response,
                           std::vector<Tensor>& states) const {
  if (!response.status.ok()) return false;
  if (Status taken = state_.Take(response, request.sequence_end, states); !taken.ok()) {
    response = {};
    response.status = std::move(taken);
    return false;
  }
  return true;
}

void TurnInputs::Remove(InferenceRequest& request) {
  request.inputs.resize(request.scheduling.own_inputs);
  request.requested_outputs.resize(request.scheduling.own_outputs);
}

}  // namespace braid
