// The classification extension: an output as its k highest values with index and label.
#pragma once

#include <cstdint>

#include "base/status.h"
#include "serving/servable.h"
#include "tensor/tensor.h"

namespace braid {

// Turns `output` into a BYTES tensor of shape [k] (or [batch, k] when `batching`):
// "{value}:{index}[:{label}]", highest first. `spec` gives the labels; may be null. k beyond the number of
// elements is cut to it. Errors: INVALID_ARGUMENT with the contract's texts for types without an order and
// for sizes that are too large.
Result<Tensor> Classify(const Tensor& output, uint32_t k, bool batching, const TensorSpec* spec);

}  // namespace braid
