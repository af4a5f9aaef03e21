#include <cstring>
#include <limits>
#include <span>

#include "protocols/inference/sequence_naming.h"
#include "protocols/kserve/http/infer_request.h"

namespace braid {

Status ReadRawInferRequest(size_t bytes, const HttpInferTarget& target, HttpInferRequest& out) {
  const ServableInfo& info = target.info;
  if (info.inputs.size() != 1) {
    return InvalidArgumentError("Raw request must only have 1 input (found 1) to be deduced but got " +
                                std::to_string(info.inputs.size()) + " inputs in '" + info.name +
                                "' model configuration");
  }
  const TensorSpec& spec = info.inputs.front();
  const bool batching = info.max_batch_size > 0;
  out.format.binary_default = true;
  out.format.plan.batching = batching;
  out.format.rules = &RulesOf(info);

  Tensor tensor;
  tensor.name = spec.name;
  tensor.type = spec.type;
  tensor.shape = spec.shape;
  if (batching && !tensor.shape.empty()) tensor.shape[0] = 1;
  int64_t* variable = nullptr;
  int64_t fixed = 1;
  for (int64_t& dim : tensor.shape) {
    if (dim >= 0) {
      if (__builtin_mul_overflow(fixed, dim, &fixed)) fixed = 0;
    } else if (variable == nullptr) {
      variable = &dim;
    } else {
      return InvalidArgumentError(
          "The shape of the raw input '" + spec.name +
          "' can not be deduced because there are more than one variable-sized dimension");
    }
  }
  if (spec.type == DataType::kBytes) {
    const std::span dims = std::span(spec.shape).subspan(batching && !spec.shape.empty() ? 1 : 0);
    if (dims.size() != 1 || dims[0] != 1) {
      return InvalidArgumentError("For BYTE datatype raw input '" + spec.name +
                                  "', the model must have input shape [1]");
    }
    if (bytes > std::numeric_limits<uint32_t>::max()) {
      return InvalidArgumentError("raw input '" + spec.name + "' is too long for a string");
    }
    const auto length = static_cast<uint32_t>(bytes);
    BRAID_ASSIGN_OR_RETURN(tensor.data, target.allocator.Allocate(sizeof(length) + bytes));
    std::memcpy(tensor.data.mutable_data(), &length, sizeof(length));
    out.destinations.emplace_back(tensor.data.mutable_data() + sizeof(length), bytes);
  } else {
    const size_t element_size = ElementSize(spec.type);
    if (variable != nullptr) {
      *variable = fixed > 0 && element_size > 0 ? static_cast<int64_t>(bytes / element_size) / fixed : 0;
    }
    BRAID_ASSIGN_OR_RETURN(tensor.data, target.allocator.Allocate(bytes));
    out.destinations.emplace_back(tensor.data.mutable_data(), bytes);
  }
  out.request.inputs.push_back(std::move(tensor));
  return NameSequenceOf(info, target.sequence_header, out.request);
}

}  // namespace braid
