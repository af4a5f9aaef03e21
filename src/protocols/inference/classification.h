// The classification extension: returns an output as its k highest values, with index and label.
#pragma once

#include <cstdint>

#include "base/status.h"
#include "serving/servable.h"
#include "tensor/tensor.h"

namespace braid {

// Converts `output` to a BYTES tensor of shape [k] (or [batch, k] if `batching`):
// "{value}:{index}[:{label}]", highest value first. `spec` has the labels, and may be null. A k beyond the
// number of elements is reduced to it.
// Errors: INVALID_ARGUMENT, with the contract's texts, for unsupported types and for sizes that are too
// large; INTERNAL for bytes that do not fit the shape.
Result<Tensor> Classify(const Tensor& output, uint32_t k, bool batching, const TensorSpec* spec);

}  // namespace braid
