// Tensors of OpenVINO's that lie in memory of an allocator of ours, also when they grow.
#pragma once

#include <openvino/openvino.hpp>

#include "tensor/buffer.h"

namespace braid {

// `memory` outlives the tensor; null: OpenVINO's own. Throws what OpenVINO throws, and std::bad_alloc.
ov::Tensor MakeTensorIn(BufferAllocator* memory, const ov::element::Type& element, const ov::Shape& shape);

}  // namespace braid
