// Parameters of requests out of JSON.
#pragma once

#include <simdjson.h>

#include <string_view>

#include "base/status.h"
#include "serving/request.h"

namespace braid {

// Reads one parameter of a request: reserved ones (sequence_id, priority, ...) to their fields, all others to
// request.parameters. Errors: texts of the protocol for values of a wrong kind and for names that are
// reserved.
Status ReadRequestParameter(std::string_view name, simdjson::dom::element value, InferenceRequest& request);

}  // namespace braid
