// The rules of a ModelInferRequest to a graph. What a graph's streams take is for the graph to say; here is
// what belongs to the wire.
#pragma once

#include <vector>

#include "base/status.h"
#include "protocols/kserve/grpc/request_reader.h"
#include "serving/parameters.h"
#include "tensor/tensor.h"

namespace braid {

// Adds a parameter of a request to those that the graph sees: all but those which speak to the protocol.
// Errors: kNotImplemented for one without a value.
Status TakeGraphParameter(std::string& key, WireParameter& value, Parameters& parameters);

// Checks, before any byte is copied, that contents are raw or typed, that there are as many raw ones as
// inputs, that no dimension is negative, and that typed contents are of a type that has them and as many
// values as the shape says. Raw bytes may be of any number, and BYTES of any form. `inputs` have the types
// and shapes of the message. Errors: as Fault.
Status CheckGraphContents(const ParsedRequest& parsed, const std::vector<Tensor>& inputs);

}  // namespace braid
