// Tensor: a named tensor of a request or response.
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
  // The clients' name of the type if `type` is kCustom; else empty.
  std::string custom_type = {};
};

// The saved state of a Python model's sequence, as opaque bytes (save_sequence, load_sequence). It is the
// last input of a request whose sequence the instance takes over, and an output of responses. Models and
// clients do not see it.
inline constexpr std::string_view kSequenceStateTensor = "braid_sequence_state";
// The input of language models that has the prompt, as BYTES.
inline constexpr std::string_view kPromptInput = "text_input";

// Returns the name of a tensor's type on the wire: "FP32", or a user-defined name.
inline std::string_view TypeName(const Tensor& tensor) {
  return tensor.type == DataType::kCustom ? std::string_view(tensor.custom_type) : WireName(tensor.type);
}

}  // namespace braid
