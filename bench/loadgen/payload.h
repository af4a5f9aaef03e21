// The tensors that the load generator sends: made once at the start, then sent unchanged with every request.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace braid::bench {

struct InputTensor {
  std::string name;
  std::string datatype;  // FP32, FP64, INT32, INT64, UINT8 or BYTES
  std::vector<int64_t> shape;
  std::string data;  // as on the wire: little endian; elements of BYTES are preceded by their length
};

// Makes a tensor of a specification NAME:DATATYPE:SHAPE such as "INPUT0:FP32:1x4". The values are small whole
// numbers that differ with `index`, so that sums are exact and text stays short. Elements of BYTES have
// `bytes_length` bytes.
Result<InputTensor> MakeInput(std::string_view specification, int index, size_t bytes_length);

// The elements as JSON text, separated by commas. Understands what MakeInput makes.
std::string JsonElements(const InputTensor& tensor);

}  // namespace braid::bench
