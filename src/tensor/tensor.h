// A named tensor: what requests and responses carry.
#pragma once

#include <string>
#include <string_view>

#include "tensor/buffer.h"
#include "tensor/data_type.h"
#include "tensor/shape.h"

namespace braid {

struct Tensor {
  std::string name;
  DataType type = DataType::kInvalid;
  Shape shape;
  // Row-major, little-endian; BYTES in their wire form.
  Buffer data;
  // What clients call the type, when `type` is kCustom; else empty.
  std::string custom_type = {};
};

// What a Python model keeps of a sequence, as bytes of its own (save_sequence, load_sequence): the last input of a
// request whose sequence the instance is to take over, and an output of the answers. Models and clients do not see it.
inline constexpr std::string_view kSequenceStateTensor = "braid_sequence_state";

// The name of a tensor's type on the wire: "FP32", or one that a user has made up.
inline std::string_view TypeName(const Tensor& tensor) {
  return tensor.type == DataType::kCustom ? std::string_view(tensor.custom_type) : WireName(tensor.type);
}

}  // namespace braid
