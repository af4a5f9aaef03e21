// Numbers of one precision as numbers of another, for pipelines with "convert_precision".
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "base/status.h"
#include "tensor/buffer.h"
#include "tensor/tensor.h"

namespace braid {

// Between all types of numbers and BOOL; not BYTES.
bool CanConvert(DataType from, DataType to);

// What `to` can hold stays the same value. Fractions are cut off towards zero on the way to integers; what is
// beyond the range of an integer becomes the nearest that is in it, NaN becomes 0. On the way to BOOL, all
// but 0 is true. Floating-point numbers are rounded to the nearest, those beyond the range become infinite.
// Errors: INVALID_ARGUMENT when it cannot be converted or its bytes do not fit its shape, and those of the
// allocator.
Result<Tensor> ConvertPrecision(const Tensor& tensor, DataType to, BufferAllocator& allocator);

// By input, the precision that it is to have.
using Precisions = std::vector<std::pair<std::string, DataType>>;
// Converts those of the inputs that have another one. Errors: those of ConvertPrecision().
Status ConvertInputs(const Precisions& precisions, std::vector<Tensor>& inputs, BufferAllocator& allocator);

}  // namespace braid
