// The checks that every request passes before it is scheduled, whatever protocol it came by.
#pragma once

#include <string>

#include "base/status.h"
#include "serving/request.h"
#include "serving/servable.h"

namespace braid {

// Compares a request with the servable's specification: inputs known, present, once each, of the right type,
// shape and byte size; batch dimension; requested outputs known and once each. Sets request.batch_size, and
// gives inputs the shape in which the model sees them.
// Errors: INVALID_ARGUMENT with the texts of the servable's dialect. Any thread; allocates nothing for a good
// request of a usual size.
Status CheckRequest(const ServableInfo& info, InferenceRequest& request);

// "[request id: 17] ", with "<id_unknown>" for a request without one: how texts about one request begin.
std::string RequestPrefix(const InferenceRequest& request);

}  // namespace braid
