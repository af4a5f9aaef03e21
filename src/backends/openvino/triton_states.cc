#include "backends/openvino/triton_states.h"

#include <algorithm>
#include <string>
#include <vector>

#include "backends/openvino/element_types.h"

namespace braid {
namespace {

using inference::ModelConfig;
using State = inference::ModelSequenceBatching::State;

std::string Who(const ModelConfig& config, const std::string& state) {
  return "model '" + config.name() + "': its variable '" + state + "' ";
}

const State* FindState(const ModelConfig& config, const std::string& name) {
  for (const State& state : config.sequence_batching().state()) {
    if (state.input_name() == name) return &state;
  }
  return nullptr;
}

// Returns the dims in a configuration for a shape of the model.
Result<std::vector<int64_t>> DimsOf(const ModelConfig& config, const std::string& state, const Shape& shape) {
  std::vector<int64_t> dims(shape.begin(), shape.end());
  if (config.max_batch_size() > 0 && !dims.empty()) dims.erase(dims.begin());
  if (dims.empty()) {
    return UnsupportedError(Who(config, state) + "has no dimensions" +
                            (config.max_batch_size() > 0 ? " besides the batch" : "") +
                            "; a `state` of sequence_batching needs at least one");
  }
  return dims;
}

bool IsZero(const Tensor& tensor) {
  return std::all_of(tensor.data.data(), tensor.data.data() + tensor.data.size(),
                     [](std::byte byte) { return byte == std::byte{0}; });
}

// Returns the shape that the server gives a state of zeros.
Shape ZerosShape(const ModelConfig& config, const State& state) {
  Shape shape;
  if (config.max_batch_size() > 0) shape.push_back(1);
  const auto& dims = state.initial_state().empty() ? state.dims() : state.initial_state(0).dims();
  for (int64_t dim : dims) shape.push_back(dim == -1 ? 1 : dim);
  return shape;
}

Status CheckState(const ModelConfig& config, const ModelState& model, const Tensor& initial,
                  const State& state) {
  const std::string who = Who(config, model.name);
  if (*FromElementType(model.element) != static_cast<DataType>(state.data_type())) {
    return InvalidArgumentError(who + "is " + ConfigTypeName(model.element) + ", its `state` is " +
                                inference::DataType_Name(state.data_type()));
  }
  if (state.output_name() != model.name) {
    return InvalidArgumentError(who + "must be both input_name and output_name of its `state`");
  }
  BRAID_ASSIGN_OR_RETURN(const auto dims, DimsOf(config, model.name, FromPartialShape(model.shape)));
  if (!std::equal(dims.begin(), dims.end(), state.dims().begin(), state.dims().end())) {
    return InvalidArgumentError(who + "has the dims " + ShapeToString(Shape(dims.begin(), dims.end())) +
                                ", its `state` has " +
                                ShapeToString(Shape(state.dims().begin(), state.dims().end())));
  }
  // The content of a data_file is not compared with the model.
  if (!state.initial_state().empty() && !state.initial_state(0).data_file().empty()) return OkStatus();
  if (IsZero(initial) && ZerosShape(config, state) == initial.shape) return OkStatus();
  return InvalidArgumentError(who + "does not start as zeros of shape " +
                              ShapeToString(ZerosShape(config, state)) +
                              "; put its initial value into a data_file of `initial_state`");
}

}  // namespace

Result<ModelStates> TakeTritonStates(const ModelConfig& config, ov::Model& model) {
  BRAID_ASSIGN_OR_RETURN(ModelStates states, TakeStates(model));
  if (states.are_ports || states.states.empty()) return states;
  return UnsupportedError(Who(config, states.states[0].name) +
                          "cannot be kept for sequences: its initial value depends on the request, or it is "
                          "not read and assigned once; serve it as \"stateful\" from a config.json");
}

Status CompleteTritonStates(const ModelStates& states, ModelConfig& config) {
  for (size_t i = 0; i < states.states.size(); ++i) {
    const ModelState& state = states.states[i];
    if (FindState(config, state.name) != nullptr) continue;
    BRAID_ASSIGN_OR_RETURN(const auto dims, DimsOf(config, state.name, FromPartialShape(state.shape)));
    State& added = *config.mutable_sequence_batching()->add_state();
    added.set_input_name(state.name);
    added.set_output_name(state.name);
    added.set_data_type(static_cast<inference::DataType>(*FromElementType(state.element)));
    for (int64_t dim : dims) added.add_dims(dim);
    BRAID_ASSIGN_OR_RETURN(const auto first, DimsOf(config, state.name, states.initial[i].shape));
    const bool sayable = std::all_of(first.begin(), first.end(), [](int64_t dim) { return dim > 0; });
    if (!sayable || first == dims) continue;
    auto& initial = *added.add_initial_state();
    initial.set_name(state.name);
    initial.set_data_type(added.data_type());
    initial.set_zero_data(true);
    for (int64_t dim : first) initial.add_dims(dim);
  }
  return OkStatus();
}

Status FitTritonStates(const ModelConfig& config, const ModelStates& states, ModelNames& names) {
  for (size_t i = 0; i < states.states.size(); ++i) {
    const std::string& name = states.states[i].name;
    const State* state = FindState(config, name);
    if (state == nullptr) {
      return InvalidArgumentError(Who(config, name) +
                                  "needs a `state` in sequence_batching with input_name and "
                                  "output_name '" +
                                  name + "'");
    }
    const auto is_called_so = [&name](const PortNames& port) { return port.Has(name); };
    if (std::any_of(names.inputs.begin(), names.inputs.end(), is_called_so) ||
        std::any_of(names.outputs.begin(), names.outputs.end(), is_called_so)) {
      return UnsupportedError(Who(config, name) + "has the name of an input or output");
    }
    BRAID_RETURN_IF_ERROR(CheckState(config, states.states[i], states.initial[i], *state));
  }
  for (const ModelState& state : states.states) {
    names.inputs.push_back({state.name, {}});
    names.outputs.push_back({state.name, {}});
  }
  return OkStatus();
}

}  // namespace braid
