// Checks that every request of every protocol passes before it is scheduled.
#pragma once

#include <string>

#include "base/status.h"
#include "serving/request.h"
#include "serving/servable.h"

namespace braid {

// Compares a request with the servable's specification. Inputs must be known, present, unique, and of the
// right type, shape and byte size. The batch dimension must fit, and requested outputs must be known and
// unique. Sets request.batch_size and gives inputs the shape that the model sees. Errors: INVALID_ARGUMENT
// with the texts of the servable's dialect. Any thread. A good request of usual size allocates no memory.
Status CheckRequest(const ServableInfo& info, InferenceRequest& request);

// The part of CheckRequest() for requested outputs, for runs whose inputs the servable itself checks.
Status CheckRequestedOutputs(const ServableInfo& info, const InferenceRequest& request);

// Returns the prefix of texts about one request: "[request id: 17] ", with "<id_unknown>" for a request
// without id.
std::string RequestPrefix(const InferenceRequest& request);

}  // namespace braid
