// Request parameters from JSON.
#pragma once

#include <simdjson.h>

#include <string_view>

#include "base/status.h"
#include "serving/request.h"

namespace braid {

// Reads one parameter of a request. Reserved ones (sequence_id, priority, ...) set fields; all others go to
// request.parameters. Errors: texts of the protocol for values of a wrong kind and for reserved names.
Status ReadRequestParameter(std::string_view name, simdjson::dom::element value, InferenceRequest& request);

}  // namespace braid
