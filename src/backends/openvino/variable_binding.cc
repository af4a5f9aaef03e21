#include "backends/openvino/variable_binding.h"

#include <algorithm>
#include <cstring>
#include <string>

namespace braid {

Status VariableBinding::Find() {
  std::vector<ov::VariableState> all = request_.query_state();
  for (const CompiledTensor& wanted : facts_.variables) {
    const auto found = std::find_if(all.begin(), all.end(), [&wanted](const ov::VariableState& variable) {
      return variable.get_name() == wanted.name;
    });
    if (found == all.end()) {
      return UnsupportedError("model '" + facts_.model_name + "': the device cannot read state '" +
                              wanted.name + "', so requests would see each other's state");
    }
    variables_.push_back(*found);
  }
  return OkStatus();
}

Status VariableBinding::Prepare(const Execution& execution) {
  if (execution.requests.size() != 1 && facts_.states == StatePlace::kVariables) {
    return InternalError("requests of several sequences cannot share the variables of model '" +
                         facts_.model_name + "'");
  }
  if (facts_.states == StatePlace::kReset || !HasStates(facts_, *execution.requests.front())) {
    request_.reset_state();
    return OkStatus();
  }
  const std::vector<Tensor>& inputs = execution.requests.front()->inputs;
  for (size_t i = 0; i < variables_.size(); ++i) {
    BRAID_RETURN_IF_ERROR(Set(i, inputs[facts_.own_inputs() + i]));
  }
  return OkStatus();
}

Status VariableBinding::Set(size_t index, const Tensor& value) {
  const CompiledTensor& expected = facts_.variables[index];
  if (value.type != expected.type || ByteSize(value.type, value.shape) != std::optional(value.data.size())) {
    return InvalidArgumentError("state '" + expected.name + "' of model '" + facts_.model_name + "' is " +
                                std::string(WireName(value.type)) + " " + ShapeToString(value.shape) +
                                " in " + std::to_string(value.data.size()) + " bytes, not " +
                                std::string(WireName(expected.type)));
  }
  const ov::Shape shape(value.shape.begin(), value.shape.end());
  if (value.data.empty()) {
    variables_[index].set_state(ov::Tensor(expected.element, shape));
    return OkStatus();
  }
  // The device copies the tensor.
  variables_[index].set_state(ov::Tensor(expected.element, shape, const_cast<std::byte*>(value.data.data())));
  return OkStatus();
}

void VariableBinding::Collect(std::vector<Tensor>& outputs) {
  if (facts_.states != StatePlace::kVariables) return;
  for (size_t i = 0; i < variables_.size(); ++i) {
    // A view that the next inference overwrites.
    const ov::Tensor current = variables_[i].get_state();
    Tensor& state = outputs.emplace_back();
    state.name = facts_.variables[i].name;
    state.type = facts_.variables[i].type;
    // A device may give a scalar state one dimension.
    const ov::Shape shape = facts_.variables[i].is_static ? facts_.variables[i].shape : current.get_shape();
    state.shape.assign(shape.begin(), shape.end());
    const size_t bytes = current.get_byte_size();
    if (bytes == 0) continue;
    StatePool::Piece* piece = pools_[i]->Take();
    Buffer owner(nullptr, 0, piece);
    piece->tensor().set_shape(shape);
    auto* data = static_cast<std::byte*>(piece->tensor().data());
    std::memcpy(data, current.data(), bytes);
    piece->AddReference();
    state.data = Buffer(data, bytes, piece);
  }
}

}  // namespace braid
