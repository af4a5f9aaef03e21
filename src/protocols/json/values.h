// JSON text of values: of tensors, of parameters, of numbers.
#pragma once

#include <string>

#include "base/status.h"
#include "serving/parameters.h"
#include "tensor/tensor.h"

namespace braid {

// Appends the JSON text of a tensor's values, with commas between them. Errors: INVALID_ARGUMENT
// for types that JSON cannot carry; INTERNAL for bytes that do not fit datatype and shape, and for BYTES that
// are cut off.
Status AppendTensorValues(std::string& out, const Tensor& tensor);

// Appends the JSON text of numbers: what reads back as the same value; with a point or an exponent, or NaN,
// Infinity.
void AppendJsonNumber(std::string& out, float value);
void AppendJsonNumber(std::string& out, double value);

// Appends the JSON text of a parameter.
void AppendParameterValue(std::string& out, const ParameterValue& value);

}  // namespace braid
