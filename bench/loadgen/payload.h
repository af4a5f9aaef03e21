// The tensors that the load generator sends: made once at the start, and sent unchanged with every request.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "load/tensor.h"

namespace braid::bench {

using InputTensor = load::Tensor;

// Makes a tensor from a specification NAME:DATATYPE:SHAPE (FP32, FP64, INT32, INT64, UINT8 or BYTES), such as
// "INPUT0:FP32:1x4". The values are small whole numbers that differ with `index`, so that sums are exact and
// text is short. Elements of BYTES have `bytes_length` bytes.
Result<InputTensor> MakeInput(std::string_view specification, int index, size_t bytes_length);

}  // namespace braid::bench
