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

// The name of a tensor's type on the wire: "FP32", or one that a user has made up.
inline std::string_view TypeName(const Tensor& tensor) {
  return tensor.type == DataType::kCustom ? std::string_view(tensor.custom_type) : WireName(tensor.type);
}

}  // namespace braid
