#include "backends/openvino/compiled_facts.h"

#include <utility>

#include "backends/openvino/element_types.h"
#include "serving/faults.h"

namespace braid {
namespace {

// Returns false when the size does not fit an integer.
bool SetShape(const ov::PartialShape& shape, CompiledTensor& tensor) {
  tensor.is_static = shape.is_static();
  // For an output of unknown rank, any first guess will do.
  tensor.shape = shape.rank().is_static() ? shape.get_min_shape() : ov::Shape{0};
  if (!tensor.is_static || tensor.type == DataType::kBytes) return true;
  const auto bytes = ByteSize(tensor.type, Shape(tensor.shape.begin(), tensor.shape.end()));
  tensor.bytes = bytes.value_or(0);
  return bytes.has_value();
}

template <class Port>
Result<CompiledTensor> MakeTensor(const std::string& model_name, const std::string& name, const Port& port) {
  CompiledTensor tensor;
  tensor.name = name;
  tensor.element = port.get_element_type();
  const auto type = FromElementType(tensor.element);
  if (!type) {
    return UnsupportedError("tensor '" + name + "' of model '" + model_name + "' is of type " +
                            tensor.element.get_type_name() +
                            ", which no protocol supports; convert it in the model or set 'precision'");
  }
  tensor.type = *type;
  if (!SetShape(port.get_partial_shape(), tensor)) {
    return InvalidArgumentError("tensor '" + name + "' of model '" + model_name + "' is too large");
  }
  return tensor;
}

// The port interface that MakeTensor() needs, for a state.
struct StatePort {
  const ModelState& state;
  const ov::element::Type& get_element_type() const { return state.element; }
  const ov::PartialShape& get_partial_shape() const { return state.shape; }
};

}  // namespace

Result<CompiledFacts> MakeFacts(std::string model_name, const ov::Model& model, const ModelNames& names) {
  CompiledFacts facts;
  facts.model_name = std::move(model_name);
  for (size_t i = 0; i < names.inputs.size(); ++i) {
    BRAID_ASSIGN_OR_RETURN(CompiledTensor tensor,
                           MakeTensor(facts.model_name, names.inputs[i].name, model.input(i)));
    facts.inputs.push_back(std::move(tensor));
  }
  for (size_t i = 0; i < names.outputs.size(); ++i) {
    BRAID_ASSIGN_OR_RETURN(CompiledTensor tensor,
                           MakeTensor(facts.model_name, names.outputs[i].name, model.output(i)));
    facts.outputs.push_back(std::move(tensor));
  }
  return facts;
}

Status AddStates(const ov::Model& model, ModelStates states, CompiledFacts& facts) {
  if (!states.are_ports) {
    facts.states = StatePlace::kVariables;
    for (const ModelState& state : states.states) {
      BRAID_ASSIGN_OR_RETURN(CompiledTensor tensor,
                             MakeTensor(facts.model_name, state.name, StatePort{state}));
      facts.variables.push_back(std::move(tensor));
    }
    return OkStatus();
  }
  facts.states = StatePlace::kPorts;
  for (const ModelState& state : states.states) {
    BRAID_ASSIGN_OR_RETURN(CompiledTensor input,
                           MakeTensor(facts.model_name, state.name, model.input(facts.inputs.size())));
    facts.inputs.push_back(std::move(input));
    BRAID_ASSIGN_OR_RETURN(CompiledTensor output,
                           MakeTensor(facts.model_name, state.name, model.output(facts.outputs.size())));
    facts.outputs.push_back(std::move(output));
  }
  facts.initial_states = std::move(states.initial);
  return OkStatus();
}

void AddForgotten(const std::vector<std::string>& variables, CompiledFacts& facts) {
  if (variables.empty()) return;
  facts.states = StatePlace::kReset;
  for (const std::string& name : variables) facts.variables.emplace_back().name = name;
}

std::string DescribePrecision(const std::string& precision) {
  return precision.empty() ? "" : "; FP32 is computed in " + precision;
}

Status CheckSmallerTypes(const CompiledFacts& facts, const std::string& device, bool allowed, Logger& log) {
  if (device != "CPU") return OkStatus();
  std::string narrowed;
  for (const auto* const tensors : {&facts.inputs, &facts.outputs}) {
    for (const CompiledTensor& tensor : *tensors) {
      const bool whole = tensor.type == DataType::kInt64 || tensor.type == DataType::kUint64;
      if (!whole && tensor.type != DataType::kFp64) continue;
      narrowed += (narrowed.empty() ? "" : ", ") + std::string(WireName(tensor.type)) + " '" + tensor.name +
                  "' in " + (whole ? "INT32" : "FP32");
    }
  }
  if (narrowed.empty()) return OkStatus();
  const std::string text =
      "model '" + facts.model_name + "': OpenVINO's CPU device computes in a smaller type: " + narrowed;
  if (!allowed) return UnsupportedError(text + "; the server was started with --allow-smaller-types=false");
  BRAID_LOG_WARNING(log, "{}", text);
  return OkStatus();
}

void TakeShapes(const ov::CompiledModel& compiled, CompiledFacts& facts) {
  for (size_t i = 0; i < facts.outputs.size(); ++i) {
    const ov::PartialShape& shape = compiled.output(i).get_partial_shape();
    if (!facts.outputs[i].is_static && shape.is_static()) SetShape(shape, facts.outputs[i]);
  }
}

Status CheckStates(const CompiledFacts& facts, const InferenceRequest& request) {
  if (facts.state_count() == 0 || request.inputs.size() <= facts.own_inputs() || HasStates(facts, request)) {
    return OkStatus();
  }
  return InvalidArgumentError("a request of model '" + facts.model_name + "' has " +
                              std::to_string(request.inputs.size()) + " inputs; expected " +
                              std::to_string(facts.own_inputs()) + ", or " +
                              std::to_string(facts.own_inputs() + facts.state_count()) + " with the states");
}

Status InferenceError(const CompiledFacts& facts, const std::vector<ov::Shape>& shapes,
                      const std::string& text) {
  if (text.find("std::bad_alloc") != std::string::npos) {
    return ResourceExhaustedError("not enough memory for an inference of model '" + facts.model_name + "'");
  }
  // The states in variables were not among the shapes that were tried.
  if (facts.states == StatePlace::kVariables && text.find("hape") != std::string::npos) {
    return ShapesError(facts, shapes, text);
  }
  if (facts.dialect == Dialect::kTriton) {
    return InternalError("inference of model '" + facts.model_name + "' failed: " + text);
  }
  return FaultError(Fault::kInternalInferenceError, text);
}

Status ShapesError(const CompiledFacts& facts, const std::vector<ov::Shape>& shapes,
                   const std::string& text) {
  const bool triton = facts.dialect == Dialect::kTriton;
  std::string what = "model '" + facts.model_name + "' cannot take inputs of these shapes: ";
  for (size_t i = 0; i < facts.own_inputs(); ++i) {
    what += (i == 0 ? "" : ", ") + facts.inputs[i].name + " " +
            (triton ? ShapeToString(Shape(shapes[i].begin(), shapes[i].end())) : ToSettingText(shapes[i]));
  }
  what += ": " + text;
  return triton ? InvalidArgumentError(std::move(what)) : FaultError(Fault::kInvalidShape, what);
}

}  // namespace braid
