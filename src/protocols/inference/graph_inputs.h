// Functions for the inputs of requests to graphs, over gRPC and HTTP.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/status.h"
#include "serving/servable.h"
#include "tensor/tensor.h"

namespace braid {

// Stores an unknown datatype of an input (its type is kInvalid) as a custom type of the user. Errors:
// kInvalidPrecision without a name.
Status SetGraphType(std::string_view name, std::string_view input, Tensor& tensor);

// "Expected: 8 values; Actual: 4 values; input name: in". The numbers count bytes, as clients expect.
Status GraphValueCountError(uint64_t expected_bytes, uint64_t actual_bytes, std::string_view input);

}  // namespace braid
