#include "backends/openvino/input_binding.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <string>

#include "tensor/bytes_elements.h"
#include "tensor/shared_bytes.h"

namespace braid {
namespace {

// The address of empty tensors: OpenVINO requires one.
alignas(64) std::byte no_bytes[64];

Status Refused(const CompiledFacts& facts, const std::string& name, const std::string& what) {
  return InvalidArgumentError("input '" + name + "' of model '" + facts.model_name + "' " + what);
}

// Decodes the strings of a tensor to `target`. Errors: INVALID_ARGUMENT unless there are exactly `count` of
// them.
Status ReadStrings(const Tensor& tensor, std::string* target, int64_t count) {
  BRAID_ASSIGN_OR_RETURN(const Buffer bytes, OutOfReach(tensor.data));
  BytesElements elements(bytes.text());
  int64_t read = 0;
  while (read < count && elements.Next()) target[read++].assign(elements.value());
  if (read == count && !elements.Next() && !elements.truncated()) return OkStatus();
  return InvalidArgumentError("the number of strings in input '" + tensor.name +
                              "' does not match its shape");
}

}  // namespace

InputBinding::InputBinding(const CompiledFacts& facts, ov::InferRequest& request)
    : facts_(facts), request_(request), bound_(facts.inputs.size()) {}

size_t InputBinding::InputBytes(const Execution& execution) {
  size_t bytes = 0;
  for (const auto& request : execution.requests) {
    for (const Tensor& input : request->inputs) bytes += input.data.size();
  }
  return bytes;
}

Status InputBinding::Bind(const Execution& execution) {
  if (facts_.states != StatePlace::kNone) {
    for (const auto& request : execution.requests) BRAID_RETURN_IF_ERROR(CheckStates(facts_, *request));
  }
  for (size_t i = 0; i < facts_.inputs.size(); ++i) BRAID_RETURN_IF_ERROR(BindOne(i, execution));
  return OkStatus();
}

const Tensor* InputBinding::Find(const InferenceRequest& request, size_t index) const {
  const std::vector<Tensor>& inputs = request.inputs;
  if (index >= facts_.own_inputs()) {
    return HasStates(facts_, request) ? &inputs[index] : &facts_.initial_states[index - facts_.own_inputs()];
  }
  const std::string& name = facts_.inputs[index].name;
  if (index < inputs.size() && inputs[index].name == name) return &inputs[index];
  // A state may have the name of an input.
  const size_t own = HasStates(facts_, request) ? facts_.own_inputs() : inputs.size();
  for (size_t i = 0; i < own; ++i) {
    if (inputs[i].name == name) return &inputs[i];
  }
  return nullptr;
}

Status InputBinding::BindOne(size_t index, const Execution& execution) {
  const CompiledTensor& expected = facts_.inputs[index];
  parts_.clear();
  int64_t rows = 0;
  size_t bytes = 0;
  for (const auto& request : execution.requests) {
    const Tensor* tensor = Find(*request, index);
    if (tensor == nullptr) return Refused(facts_, expected.name, "is missing");
    if (tensor->type != expected.type) {
      return Refused(facts_, expected.name,
                     "is of type " + std::string(WireName(tensor->type)) + ", not " +
                         std::string(WireName(expected.type)));
    }
    const auto elements = ElementCount(tensor->shape);
    if (!elements) return Refused(facts_, expected.name, "has the shape " + ShapeToString(tensor->shape));
    if (expected.type != DataType::kBytes &&
        ByteSize(tensor->type, tensor->shape) != std::optional<size_t>(tensor->data.size())) {
      return Refused(facts_, expected.name,
                     "has " + std::to_string(tensor->data.size()) +
                         " bytes, which does not match its shape " + ShapeToString(tensor->shape));
    }
    if (!parts_.empty() || execution.requests.size() > 1) {
      const Shape& first = parts_.empty() ? tensor->shape : parts_.front()->shape;
      const bool joins = !first.empty() && tensor->shape.size() == first.size() &&
                         std::equal(first.begin() + 1, first.end(), tensor->shape.begin() + 1);
      if (!joins) return Refused(facts_, expected.name, "cannot join the batch: its shape differs");
      rows += tensor->shape[0];
    }
    // All requests are in memory already, so the sum does not overflow.
    bytes += tensor->data.size();
    parts_.push_back(tensor);
  }
  if (parts_.empty()) return InternalError("an execution without requests");

  const Tensor& first = *parts_.front();
  ov::Shape shape(first.shape.begin(), first.shape.end());
  if (parts_.size() > 1) shape[0] = static_cast<size_t>(rows);

  if (expected.type == DataType::kBytes) {
    ov::Tensor strings(ov::element::string, shape);
    auto* target = strings.data<std::string>();
    for (const Tensor* part : parts_) {
      const int64_t count = *ElementCount(part->shape);
      BRAID_RETURN_IF_ERROR(ReadStrings(*part, target, count));
      target += count;
    }
    request_.set_input_tensor(index, strings);
    Note(bound_[index], shape);
    return OkStatus();
  }

  Bound& bound = bound_[index];
  const size_t alignment = ElementSize(expected.type);
  // OpenVINO does not write to inputs, but only its documentation says so, not its interface.
  auto* data = const_cast<std::byte*>(first.data.data());
  if (parts_.size() > 1 || reinterpret_cast<uintptr_t>(data) % alignment != 0 || facts_.CopiesInput(index)) {
    if (bound.scratch.size() < bytes) {
      HeapAllocator heap;
      BRAID_ASSIGN_OR_RETURN(bound.scratch, heap.Allocate(bytes));
    }
    data = bound.scratch.mutable_data();
    std::byte* target = data;
    for (const Tensor* part : parts_) {
      if (part->data.empty()) continue;
      std::memcpy(target, part->data.data(), part->data.size());
      target += part->data.size();
    }
  }
  Set(index, bytes == 0 ? no_bytes : data, shape);
  return OkStatus();
}

void InputBinding::Set(size_t index, std::byte* data, const ov::Shape& shape) {
  Bound& bound = bound_[index];
  // Request memory is reused, so the infer request often has this address already.
  if (bound.data == data && bound.shape == shape) return;
  bound.data = nullptr;
  request_.set_input_tensor(index, ov::Tensor(facts_.inputs[index].element, shape, data));
  bound.data = data;
  Note(bound, shape);
}

void InputBinding::Note(Bound& bound, const ov::Shape& shape) {
  if (bound.shape == shape) return;
  bound.shape = shape;
  reshaped_ = true;
}

std::vector<ov::Shape> InputBinding::Shapes() const {
  std::vector<ov::Shape> shapes;
  for (const Bound& bound : bound_) shapes.push_back(bound.shape);
  return shapes;
}

}  // namespace braid
