// Functions that write values as JSON text: tensors, parameters and numbers.
#pragma once

#include <string>

#include "base/status.h"
#include "serving/parameters.h"
#include "tensor/tensor.h"

namespace braid {

// Appends the JSON text of a tensor's values, separated by commas. Errors: INVALID_ARGUMENT for types that
// JSON cannot carry; INTERNAL for bytes that do not fit datatype and shape, and for truncated BYTES.
Status AppendTensorValues(std::string& out, const Tensor& tensor);

// Append the JSON text of numbers, which reads back as the same value. It has a point or an exponent, or is
// NaN or Infinity.
void AppendJsonNumber(std::string& out, float value);
void AppendJsonNumber(std::string& out, double value);

void AppendParameterValue(std::string& out, const ParameterValue& value);

}  // namespace braid
