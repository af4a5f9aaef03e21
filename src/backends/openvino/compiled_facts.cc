#include "backends/openvino/compiled_facts.h"

#include <utility>

#include "backends/openvino/element_types.h"
#include "serving/ovms_status.h"

namespace braid {
namespace {

template <class Port>
Result<CompiledTensor> MakeTensor(const std::string& model_name, const std::string& name, const Port& port) {
  CompiledTensor tensor;
  tensor.name = name;
  tensor.element = port.get_element_type();
  const auto type = FromElementType(tensor.element);
  if (!type) {
    return UnsupportedError(
        "tensor '" + name + "' of model '" + model_name + "' is of type " + tensor.element.get_type_name() +
        ", which no protocol has; convert it within the model, or by the setting 'precision'");
  }
  tensor.type = *type;
  const ov::PartialShape& shape = port.get_partial_shape();
  tensor.is_static = shape.is_static();
  if (shape.rank().is_static()) tensor.shape = shape.get_min_shape();
  // Of an output of no known rank the first guess is as good as any.
  if (shape.rank().is_dynamic()) tensor.shape = {0};
  if (tensor.is_static && tensor.type != DataType::kBytes) {
    const auto bytes = ByteSize(tensor.type, Shape(tensor.shape.begin(), tensor.shape.end()));
    if (!bytes)
      return InvalidArgumentError("tensor '" + name + "' of model '" + model_name + "' is too large");
    tensor.bytes = *bytes;
  }
  return tensor;
}

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

Status InferenceError(const CompiledFacts& facts, const std::string& text) {
  if (facts.dialect == Dialect::kTriton) {
    return InternalError("inference of model '" + facts.model_name + "' failed: " + text);
  }
  // Any shape reaches an automatic model, so what it stumbles over is the shape.
  return OvmsError(facts.automatic ? OvmsCode::kReshapeError : OvmsCode::kInternalInferenceError, text);
}

}  // namespace braid
