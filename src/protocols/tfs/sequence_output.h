// The output in which stateful servables return the sequence of a request.
#pragma once

#include <cstdint>

#include "serving/sequence_inputs.h"
#include "tensor/tensor.h"

namespace braid {

// Returns whether the tensor is one number with the name of the input.
inline bool IsSequenceId(const Tensor& tensor) {
  return tensor.name == kSequenceIdInput && tensor.type == DataType::kUint64 && tensor.shape == Shape{1} &&
         tensor.data.size() == sizeof(uint64_t);
}

}  // namespace braid
