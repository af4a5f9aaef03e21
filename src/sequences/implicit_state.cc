#include "sequences/implicit_state.h"

#include <algorithm>

#include "model_config.pb.h"

namespace braid {

ImplicitState::ImplicitState(const ServableInfo& info)
    : model_name_(info.name), initial_(info.initial_states) {
  for (const auto& state : info.config->sequence_batching().state()) {
    State& made = states_.emplace_back();
    made.input_name = state.input_name();
    made.output_name = state.output_name();
    made.type = static_cast<DataType>(state.data_type());
    if (info.max_batch_size > 0) made.shape.push_back(1);
    made.shape.insert(made.shape.end(), state.dims().begin(), state.dims().end());
  }
  for (const TensorSpec& output : info.outputs) outputs_.push_back(output.name);
  BRAID_CHECK(initial_.size() == states_.size());
}

void ImplicitState::KeepOwn() {
  keeps_own_ = true;
  initial_.push_back({std::string(kSequenceStateTensor), DataType::kUint8, {0, 0}, {}});
}

std::vector<StateSpec> ImplicitState::specs() const {
  std::vector<StateSpec> specs;
  for (const State& state : states_) {
    StateSpec& spec = specs.emplace_back();
    spec.name = state.input_name;
    spec.type = state.type;
    spec.shape.assign(state.shape.begin(), state.shape.end());
  }
  if (keeps_own_) specs.push_back({std::string(kSequenceStateTensor), DataType::kUint8, {-1, -1}});
  return specs;
}

void ImplicitState::AskFor(InferenceRequest& request) const {
  if (states_.empty()) return;
  auto& names = request.requested_outputs;
  // A request that names no outputs wants all, which must then be named.
  if (names.empty()) names = outputs_;
  for (const State& state : states_) {
    if (std::find(names.begin(), names.end(), state.output_name) == names.end()) {
      names.push_back(state.output_name);
    }
  }
}

void ImplicitState::Append(const std::vector<Tensor>& values, bool load, std::vector<Tensor>& inputs) const {
  const auto own = values.begin() + static_cast<ptrdiff_t>(states_.size());
  inputs.insert(inputs.end(), values.begin(), own);
  if (keeps_own_ && load && own->shape.front() != 0) inputs.push_back(*own);
}

Status ImplicitState::Take(const InferenceResponse& response, bool last, std::vector<Tensor>& values) const {
  const auto find = [&](std::string_view name) {
    const auto output = std::find_if(response.outputs.begin(), response.outputs.end(),
                                     [&](const Tensor& tensor) { return tensor.name == name; });
    return output == response.outputs.end() ? nullptr : &*output;
  };
  std::vector<const Tensor*> found(values.size());
  for (size_t i = 0; i < states_.size(); ++i) {
    const State& state = states_[i];
    const Tensor* const output = find(state.output_name);
    if (output == nullptr) continue;
    if (output->type != state.type || !ShapeMatches(state.shape, output->shape)) {
      return InternalError("model '" + model_name_ + "' returned state '" + state.output_name + "' as " +
                           std::string(WireName(output->type)) + " " + ShapeToString(output->shape) +
                           ", but its configuration says " + std::string(WireName(state.type)) + " " +
                           ShapeToString(state.shape));
    }
    found[i] = output;
  }
  if (keeps_own_) {
    found.back() = find(kSequenceStateTensor);
    if (found.back() == nullptr && !last) {
      return InternalError("model '" + model_name_ + "' answered without the result of save_sequence");
    }
  }
  for (size_t i = 0; i < values.size(); ++i) {
    if (found[i] == nullptr) continue;
    values[i].shape = found[i]->shape;
    values[i].data = found[i]->data;
  }
  return OkStatus();
}

}  // namespace braid
