// What the inputs of a request to a graph have in common over gRPC and HTTP.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/status.h"
#include "serving/servable.h"
#include "tensor/tensor.h"

namespace braid {

// Takes the datatype of an input for one of users' own, where it is none that is known: its type is kInvalid
// then. Errors: kInvalidPrecision when there is no name.
Status SetGraphType(std::string_view name, std::string_view input, Tensor& tensor);

// "Expected: 8 values; Actual: 4 values; input name: in", where the numbers are of bytes, as clients know it.
Status GraphValueCountError(uint64_t expected_bytes, uint64_t actual_bytes, std::string_view input);

}  // namespace braid
