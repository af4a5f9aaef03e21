// Conversion of tensors between numeric types, for pipelines with "convert_precision".
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "base/status.h"
#include "tensor/buffer.h"
#include "tensor/tensor.h"

namespace braid {

// Returns whether ConvertPrecision() converts between these types: all numeric types and BOOL, not BYTES.
bool CanConvert(DataType from, DataType to);

// Converts `tensor` to type `to`. A value that `to` can represent stays the same. Conversion to an integer
// type cuts fractions off towards zero, clamps to the type's range, and makes NaN 0. Conversion to BOOL makes
// all values but 0 true. Conversion to a floating-point type rounds to the nearest; values beyond the range
// become infinite. Errors: INVALID_ARGUMENT when the types cannot be converted or the bytes do not fit the
// shape, and the allocator's.
Result<Tensor> ConvertPrecision(const Tensor& tensor, DataType to, BufferAllocator& allocator);

// The target type of inputs, by name.
using Precisions = std::vector<std::pair<std::string, DataType>>;
// Converts the inputs that have another type. Errors: those of ConvertPrecision().
Status ConvertInputs(const Precisions& precisions, std::vector<Tensor>& inputs, BufferAllocator& allocator);

}  // namespace braid
