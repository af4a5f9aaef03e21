// The values of packets of a served graph. Each kind has its own type, so that a graph which joins streams of
// different kinds is refused at load.
#pragma once

#include <string>
#include <vector>

#include "backends/python/python_nodes.h"
#include "serving/request.h"
#include "tensor/tensor.h"

namespace braid {

// Streams tagged OVMS_PY_TENSOR at the graph's boundary, and all streams of Python nodes but LOOPBACK.
struct PythonTensor {
  NodeTensor value;
};

// OVTENSOR, and streams without a tag or with an unknown one.
struct OvTensor {
  Tensor tensor;
};

// TENSOR, TFTENSOR and IMAGE (one image, height, width, channels): tensors whose packets must not be mixed.
struct MediaTensor {
  Tensor tensor;
};
struct TfTensor {
  Tensor tensor;
};
struct ImageFrame {
  Tensor tensor;
};

// REQUEST and RESPONSE: the contents of one message. Tensors are as the client sent them.
struct GraphRequest {
  std::string id;
  Parameters parameters;
  std::vector<Tensor> inputs;
};
struct GraphResponse {
  Parameters parameters;
  std::vector<Tensor> outputs;
};

}  // namespace braid
