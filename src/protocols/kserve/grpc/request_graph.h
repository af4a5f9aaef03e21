// Wire-format rules for a ModelInferRequest to a graph. The graph itself checks the tensors for its streams.
#pragma once

#include <vector>

#include "base/status.h"
#include "protocols/kserve/grpc/request_reader.h"
#include "serving/parameters.h"
#include "tensor/tensor.h"

namespace braid {

// Adds a parameter of the request to the graph's parameters, unless it addresses the protocol. Errors:
// kNotImplemented for a parameter without a value.
Status TakeGraphParameter(std::string& key, WireParameter& value, Parameters& parameters);

// Checks the contents before any byte is copied. They are raw or typed, with one raw entry per input and no
// negative dimension. Typed contents need a type with typed contents, and as many values as the shape
// implies. Raw bytes may have any size, and BYTES any form. `inputs` have the types and shapes of the
// message. Errors: as Fault.
Status CheckGraphContents(const ParsedRequest& parsed, const std::vector<Tensor>& inputs);

}  // namespace braid
