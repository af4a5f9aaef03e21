#include "backends/openvino/triton_config.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "backends/openvino/element_types.h"
#include "backends/openvino/openvino_errors.h"

namespace braid {
namespace {

using inference::ModelConfig;

Status Misfit(const ModelConfig& config, const std::string& what) {
  return InvalidArgumentError("model '" + config.name() + "': " + what);
}

// Inputs and outputs that the scheduler adds to those of clients.
struct SchedulersTensors {
  std::set<std::string> inputs;
  std::set<std::string> outputs;
};
SchedulersTensors TensorsOfScheduler(const ModelConfig& config) {
  SchedulersTensors tensors;
  for (const auto& control : config.sequence_batching().control_input())
    tensors.inputs.insert(control.name());
  for (const auto& state : config.sequence_batching().state()) {
    tensors.inputs.insert(state.input_name());
    tensors.outputs.insert(state.output_name());
  }
  return tensors;
}

bool IsAnyOf(const PortNames& port, const std::set<std::string>& names) {
  return std::any_of(names.begin(), names.end(), [&](const std::string& name) { return port.Has(name); });
}

template <class Tensors>
auto* FindTensor(Tensors& tensors, const PortNames& port) {
  for (auto& tensor : tensors) {
    if (port.Has(tensor.name())) return &tensor;
  }
  return static_cast<decltype(&*tensors.begin())>(nullptr);
}

// Adds the type and the dims of a tensor to the configuration where they are missing.
template <class Tensor, class Port>
Status CompleteTensor(const ModelConfig& config, const Port& port, Tensor& tensor) {
  if (tensor.data_type() == inference::TYPE_INVALID) {
    const auto type = FromElementType(port.get_element_type());
    if (!type) {
      return UnsupportedError("model '" + config.name() + "': tensor '" + tensor.name() + "' is of type " +
                              port.get_element_type().get_type_name() + ", which no protocol supports");
    }
    tensor.set_data_type(static_cast<inference::DataType>(*type));
  }
  if (!tensor.dims().empty() || tensor.has_reshape()) return OkStatus();
  const ov::PartialShape& shape = port.get_partial_shape();
  if (shape.rank().is_dynamic()) {
    return Misfit(config, "the model does not define the rank of tensor '" + tensor.name() +
                              "'; set its dims in the configuration");
  }
  Shape dims = FromPartialShape(shape);
  if (config.max_batch_size() > 0) {
    if (dims.empty()) {
      return Misfit(config, "tensor '" + tensor.name() + "' has no batch dimension; set max_batch_size to 0");
    }
    dims.erase(dims.begin());
  }
  // A configuration needs a dimension, even for a scalar.
  if (dims.empty()) {
    tensor.add_dims(1);
    tensor.mutable_reshape();
  }
  for (int64_t dim : dims) tensor.add_dims(dim);
  return OkStatus();
}

// Checks that the dims of the configuration and the shape of the model have sizes in common.
template <class Tensor, class Port>
Status CheckTensor(const ModelConfig& config, const Port& port, const Tensor& tensor) {
  const auto type = FromElementType(port.get_element_type());
  if (!type || static_cast<inference::DataType>(*type) != tensor.data_type()) {
    return Misfit(config, "tensor '" + tensor.name() + "' is " +
                              inference::DataType_Name(tensor.data_type()) + " in the configuration and " +
                              ConfigTypeName(port.get_element_type()) + " in the model");
  }
  ov::PartialShape wanted;
  if (config.max_batch_size() > 0) wanted.push_back(ov::Dimension(1, config.max_batch_size()));
  for (int64_t dim : tensor.has_reshape() ? tensor.reshape().shape() : tensor.dims()) {
    wanted.push_back(dim < 0 ? ov::Dimension::dynamic() : ov::Dimension(dim));
  }
  if (wanted.compatible(port.get_partial_shape())) return OkStatus();
  return Misfit(config, "tensor '" + tensor.name() + "' has the shape " + ToSettingText(wanted) +
                            " in the configuration" + (config.max_batch_size() > 0 ? ", batch first," : "") +
                            " and " + ToSettingText(port.get_partial_shape()) + " in the model");
}

Status AllowBatches(const ModelConfig& config, const ModelNames& names, ov::Model& model) {
  if (config.max_batch_size() <= 0) return OkStatus();
  const std::string advice =
      "; batches up to " + std::to_string(config.max_batch_size()) +
      " need the batch as the first dimension of every tensor; otherwise, set max_batch_size to 0";
  std::map<size_t, ov::PartialShape> shapes;
  for (size_t i = 0; i < names.inputs.size(); ++i) {
    ov::PartialShape shape = model.input(i).get_partial_shape();
    if (shape.rank().is_dynamic()) continue;
    if (shape.size() == 0)
      return Misfit(config, "input '" + names.inputs[i].name + "' has no dimensions" + advice);
    if (shape[0].is_dynamic()) continue;
    // A batch of one needs no other shape.
    if (config.max_batch_size() == 1 && shape[0] == 1) continue;
    shape[0] = ov::Dimension(1, config.max_batch_size());
    shapes.emplace(i, std::move(shape));
  }
  if (!shapes.empty()) {
    BRAID_RETURN_IF_ERROR(Guarded(
        [&] { model.reshape(shapes); },
        [&](const std::string& text) { return Misfit(config, "it cannot take batches: " + text + advice); }));
  }
  for (size_t i = 0; i < names.outputs.size(); ++i) {
    const ov::PartialShape& shape = model.output(i).get_partial_shape();
    if (shape.rank().is_dynamic()) continue;
    const bool fits = shape.size() > 0 && (shape[0].is_dynamic() || config.max_batch_size() == 1);
    if (!fits) {
      return Misfit(config, "output '" + names.outputs[i].name + "' is " + ToSettingText(shape) + advice);
    }
  }
  return OkStatus();
}

}  // namespace

Status CompleteTritonConfig(const ov::Model& model, const ModelNames& names, ModelConfig& config) {
  const SchedulersTensors schedulers = TensorsOfScheduler(config);
  const bool add_inputs = config.input().empty();
  for (size_t i = 0; i < names.inputs.size(); ++i) {
    if (IsAnyOf(names.inputs[i], schedulers.inputs)) continue;
    auto* tensor = FindTensor(*config.mutable_input(), names.inputs[i]);
    if (tensor == nullptr) {
      if (!add_inputs) continue;
      tensor = config.add_input();
      tensor->set_name(names.inputs[i].name);
    }
    BRAID_RETURN_IF_ERROR(CompleteTensor(config, model.input(i), *tensor));
  }
  const bool add_outputs = config.output().empty();
  for (size_t i = 0; i < names.outputs.size(); ++i) {
    if (IsAnyOf(names.outputs[i], schedulers.outputs)) continue;
    auto* tensor = FindTensor(*config.mutable_output(), names.outputs[i]);
    if (tensor == nullptr) {
      if (!add_outputs) continue;
      tensor = config.add_output();
      tensor->set_name(names.outputs[i].name);
    }
    BRAID_RETURN_IF_ERROR(CompleteTensor(config, model.output(i), *tensor));
  }
  return OkStatus();
}

Status FitTritonModel(const ModelConfig& config, ov::Model& model, ModelNames& names) {
  const SchedulersTensors schedulers = TensorsOfScheduler(config);
  const auto take_name = [](PortNames& port, const std::string& name) {
    if (port.name != name) port.others.push_back(std::exchange(port.name, name));
  };
  const auto take_schedulers = [&](PortNames& port, const std::set<std::string>& tensors) {
    auto tensor =
        std::find_if(tensors.begin(), tensors.end(), [&](const auto& name) { return port.Has(name); });
    if (tensor == tensors.end()) return false;
    take_name(port, *tensor);
    return true;
  };
  BRAID_RETURN_IF_ERROR(AllowBatches(config, names, model));
  std::string lacking;
  for (size_t i = 0; i < names.inputs.size(); ++i) {
    PortNames& port = names.inputs[i];
    if (take_schedulers(port, schedulers.inputs)) continue;
    const auto* tensor = FindTensor(config.input(), port);
    if (tensor == nullptr) {
      lacking = port.name;
      continue;
    }
    if (tensor->optional()) {
      return Misfit(config,
                    "input '" + port.name + "' cannot be optional: OpenVINO needs every input of a model");
    }
    if (tensor->allow_ragged_batch()) {
      return Misfit(config, "input '" + port.name + "' cannot have allow_ragged_batch with OpenVINO");
    }
    BRAID_RETURN_IF_ERROR(CheckTensor(config, model.input(i), *tensor));
    take_name(port, tensor->name());
  }
  for (size_t i = 0; i < names.outputs.size(); ++i) {
    PortNames& port = names.outputs[i];
    if (take_schedulers(port, schedulers.outputs)) continue;
    const auto* tensor = FindTensor(config.output(), port);
    if (tensor == nullptr) continue;  // hidden from clients
    BRAID_RETURN_IF_ERROR(CheckTensor(config, model.output(i), *tensor));
    take_name(port, tensor->name());
  }
  const auto check_known = [&](const auto& tensors, const std::vector<PortNames>& ports, const char* side) {
    for (const auto& tensor : tensors) {
      const bool known = std::any_of(ports.begin(), ports.end(),
                                     [&](const PortNames& port) { return port.name == tensor.name(); });
      if (!known) {
        return Misfit(config, std::string("the model has no ")
                                  .append(side)
                                  .append(" '")
                                  .append(tensor.name())
                                  .append("'; its ")
                                  .append(side)
                                  .append("s are: ")
                                  .append(ListNames(ports)));
      }
    }
    return OkStatus();
  };
  BRAID_RETURN_IF_ERROR(check_known(config.input(), names.inputs, "input"));
  if (!lacking.empty()) {
    return Misfit(config, "the configuration lacks input '" + lacking +
                              "'; the model's inputs are: " + ListNames(names.inputs));
  }
  return check_known(config.output(), names.outputs, "output");
}

}  // namespace braid
