// The output by which stateful servables tell clients which sequence a request belonged to.
#pragma once

#include <cstdint>

#include "serving/sequence_inputs.h"
#include "tensor/tensor.h"

namespace braid {

// Whether it is one number of the name that the input has.
inline bool IsSequenceId(const Tensor& tensor) {
  return tensor.name == kSequenceIdInput && tensor.type == DataType::kUint64 && tensor.shape == Shape{1} &&
         tensor.data.size() == sizeof(uint64_t);
}

}  // namespace braid
