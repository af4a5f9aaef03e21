#include "protocols/inference/graph_inputs.h"

#include "base/utf8.h"
#include "serving/faults.h"

namespace braid {

Status SetGraphType(std::string_view name, std::string_view input, Tensor& tensor) {
  if (name.empty()) {
    return FaultError(Fault::kInvalidPrecision,
                      std::string("Missing datatype; input name: ").append(Shortened(input)));
  }
  if (tensor.type == DataType::kInvalid) {
    tensor.type = DataType::kCustom;
    tensor.custom_type = name;
  }
  return OkStatus();
}

Status GraphValueCountError(uint64_t expected_bytes, uint64_t actual_bytes, std::string_view input) {
  return FaultError(Fault::kInvalidValueCount,
                    ("Expected: " + std::to_string(expected_bytes) +
                     " values; Actual: " + std::to_string(actual_bytes) + " values; input name: ")
                        .append(Shortened(input)));
}

}  // namespace braid
