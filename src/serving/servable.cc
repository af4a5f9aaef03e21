#include "serving/servable.h"

#include <algorithm>

#include "base/guard.h"

namespace braid {

void Servable::Begin(std::unique_ptr<InferenceRequest> request) noexcept {
  if (const std::unique_ptr<AsyncPreparation> preparation = std::move(request->preparation);
      preparation != nullptr) {
    (void)Guarded([&] { preparation->Take(std::move(request)); });
    return;
  }
  // An exception unwinds the request too, unless the request is queued and continues from there.
  (void)Guarded([&] { Infer(std::move(request)); });
}

Status Servable::Admit(InferenceRequest& request) {
  if (input_limit_ == nullptr) return OkStatus();
  int64_t bytes = 0;
  for (const Tensor& input : request.inputs) bytes += static_cast<int64_t>(input.data.size());
  if (request.input_share.Take(input_bytes_, bytes, input_limit_->most)) return OkStatus();
  const std::string text =
      "queued requests for '" + info_.name +
      "' exceed the limit of input bytes (--model-max-queued-bytes=" + std::to_string(input_limit_->most) +
      "); try again later";
  input_limit_->on_refusal(text);
  return ResourceExhaustedError(text);
}

Result<std::shared_ptr<ServableStream>> Servable::OpenStream(InferenceRequest&, StreamSink&) {
  return UnsupportedError("'" + info_.name + "' does not support streams");
}

void Servable::DropSequence(const CorrelationId& id) {
  if (SequenceKeeper* keeper = has_sequences() ? sequences() : nullptr) keeper->Drop(id);
}

void Servable::MarkSequence(const CorrelationId& id, std::vector<TakeBackSteps>& marks) {
  SequenceKeeper* keeper = has_sequences() ? sequences() : nullptr;
  if (TakeBackSteps mark = keeper != nullptr ? keeper->Mark(id) : nullptr) marks.push_back(std::move(mark));
}

namespace {

const TensorSpec* Find(const std::vector<TensorSpec>& specs, std::string_view name) {
  auto it =
      std::find_if(specs.begin(), specs.end(), [name](const TensorSpec& spec) { return spec.name == name; });
  return it == specs.end() ? nullptr : &*it;
}

}  // namespace

const TensorSpec* ServableInfo::FindInput(std::string_view name) const { return Find(inputs, name); }
const TensorSpec* ServableInfo::FindOutput(std::string_view name) const { return Find(outputs, name); }

std::unique_ptr<ServableHandle> ServableHandle::Enter(std::shared_ptr<Servable> servable) {
  const RetryingAllocation retrying;
  if (!servable->gate().Enter()) return nullptr;
  return std::unique_ptr<ServableHandle>(new ServableHandle(std::move(servable)));
}

}  // namespace braid
