// OpenVINO tensors in memory of the server's allocators, also after they grow.
#pragma once

#include <openvino/openvino.hpp>

#include "tensor/buffer.h"

namespace braid {

// `memory` outlives the tensor; null: OpenVINO's own. Throws OpenVINO's exceptions, and std::bad_alloc.
ov::Tensor MakeTensorIn(BufferAllocator* memory, const ov::element::Type& element, const ov::Shape& shape);

}  // namespace braid
