#include "protocols/kserve/grpc/request_graph.h"

#include <algorithm>
#include <type_traits>

#include "base/utf8.h"
#include "protocols/inference/graph_inputs.h"
#include "protocols/kserve/grpc/request_ovms.h"
#include "serving/faults.h"

namespace braid {
namespace {

std::string OfInput(std::string_view text, std::string_view input) {
  return std::string(text).append("; input name: ").append(Shortened(input));
}

// Checks an input whose contents are typed, if there are any.
Status CheckTyped(const ParsedInput& input, const Tensor& tensor) {
  const DataType type = tensor.type;
  if (type == DataType::kInvalid) {
    return FaultError(Fault::kInvalidPrecision,
                      "Provided datatype is invalid, custom datatypes are allowed only when "
                      "raw_input_contents is used.");
  }
  const std::optional<ContentsField> field = ContentsFieldFor(type);
  if (!field) {
    return FaultError(
        Fault::kNotImplemented,
        OfInput(Shortened(input.datatype) + " is supported only in raw_input_contents", input.name));
  }
  for (int i = 1; i <= kContentsFieldCount; ++i) {
    const auto other = static_cast<ContentsField>(i);
    if (other == *field || input.contents.count(other) == 0) continue;
    return FaultError(Fault::kInvalidContentSize,
                      OfInput("contents do not match datatype " + Shortened(input.datatype), input.name));
  }
  // For a type of bytes the number of strings says nothing about the tensor's size.
  if (type == DataType::kBytes) return OkStatus();
  const std::optional<size_t> expected = ByteSize(type, tensor.shape);
  if (!expected) {
    return FaultError(Fault::kInvalidContentSize,
                      OfInput("Provided shape and datatype declare too large buffer.", input.name));
  }
  const uint64_t actual = input.contents.count(*field) * ElementSize(type);
  return actual == *expected ? OkStatus() : GraphValueCountError(*expected, actual, input.name);
}

Status CheckShape(const Shape& shape, std::string_view input) {
  if (std::none_of(shape.begin(), shape.end(), [](int64_t size) { return size < 0; })) return OkStatus();
  std::string text = ShapeToString(shape);
  text.front() = '(';
  text.back() = ')';
  return FaultError(Fault::kInvalidShape,
                    OfInput("Negative dimension size is not acceptable: " + text, input));
}

}  // namespace

Status TakeGraphParameter(std::string& key, WireParameter& value, Parameters& parameters) {
  if (key == "triton_enable_empty_final_response" || key == "binary_data_output") return OkStatus();
  return std::visit(
      [&](auto& given) -> Status {
        if constexpr (std::is_same_v<std::decay_t<decltype(given)>, std::monostate>) {
          return FaultError(Fault::kNotImplemented,
                            std::string("request parameter ").append(key).append(" has no value"));
        } else {
          parameters.emplace_back(std::move(key), std::move(given));
          return OkStatus();
        }
      },
      value);
}

Status CheckGraphContents(const ParsedRequest& parsed, const std::vector<Tensor>& inputs) {
  BRAID_RETURN_IF_ERROR(CheckOvmsStructure(parsed));
  for (size_t i = 0; i < inputs.size(); ++i) {
    const ParsedInput& input = parsed.inputs[i];
    BRAID_RETURN_IF_ERROR(CheckShape(inputs[i].shape, input.name));
    if (parsed.raw.empty() && !LiesInRegion(input)) BRAID_RETURN_IF_ERROR(CheckTyped(input, inputs[i]));
  }
  return OkStatus();
}

}  // namespace braid
