#include "protocols/kserve/http/infer_ovms.h"

#include "base/utf8.h"
#include "protocols/inference/dialect.h"
#include "protocols/inference/graph_inputs.h"
#include "protocols/json/json.h"
#include "protocols/json/tensor_data.h"
#include "serving/request_check_ovms.h"

namespace braid {

Result<std::optional<uint64_t>> ImpliedBinarySize(const Tensor& tensor, size_t left, bool only_input) {
  if (left == 0) return std::optional<uint64_t>();
  if (ElementSize(tensor.type) == 0) {
    if (only_input && ElementCount(tensor.shape) == 1) return std::optional<uint64_t>(left);
    return FaultError(
        Fault::kRestBinaryDataSizeInvalid,
        std::string(TypeName(tensor)) + " of this shape requires it; input name: " + Shortened(tensor.name));
  }
  const auto size = ByteSize(tensor.type, tensor.shape);
  if (!size) return FaultError(Fault::kRestBinaryBufferExceeded, "input name: " + Shortened(tensor.name));
  return std::optional<uint64_t>(*size);
}

Status CheckJsonValueCount(const ServableInfo& info, const InferenceRequest& request, size_t index,
                           const simdjson::dom::element* data) {
  const Tensor& tensor = request.inputs[index];
  const int64_t expected = ElementCount(tensor.shape).value_or(0);
  const size_t actual = data != nullptr ? CountNestedJsonValues(*data) : 0;
  if (static_cast<uint64_t>(expected) == actual) return OkStatus();
  if (info.kind == ServableKind::kGraph) {
    // The type does not determine the size of a string.
    if (const size_t size = ElementSize(tensor.type); size > 0) {
      return GraphValueCountError(static_cast<uint64_t>(expected) * size, actual * size, tensor.name);
    }
    return OvmsValueCountError(expected, actual, tensor.name);
  }
  return RulesOf(info).FirstFault(info, request, OvmsValueCountError(expected, actual, tensor.name));
}

Status ReadGraphParameter(std::string_view name, simdjson::dom::element value, Parameters& parameters) {
  if (name == "triton_enable_empty_final_response") return OkStatus();
  BRAID_ASSIGN_OR_RETURN(ParameterValue parameter, JsonParameter(name, value));
  if (std::holds_alternative<double>(parameter) || std::holds_alternative<uint64_t>(parameter)) {
    return InvalidArgumentError("parameter '" + Shortened(name) +
                                "' should be a string, a boolean or a 64-bit integer");
  }
  parameters.emplace_back(name, std::move(parameter));
  return OkStatus();
}

}  // namespace braid
