// A named tensor: what requests and responses carry.
#pragma once

#include <string>

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
};

}  // namespace braid
