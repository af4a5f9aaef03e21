// From an InferenceResponse to the JSON objects of .../generate and .../generate_stream.
#pragma once

#include <string>
#include <string_view>

#include "base/status.h"
#include "serving/request.h"

namespace braid {

// Appends a flat object: model_name, model_version, id when there is one, the response's parameters, and each
// output by its name: one value as it is, any other number of values as a flat array. A parameter gives way
// to an output, or to one of the first three, with the same name. REQUIRES: response.status is OK. Errors:
// those of AppendTensorValues(); `out` is of no use then.
Status AppendGenerateResponse(std::string& out, std::string_view id, const InferenceResponse& response);

// Appends {"error":"text"}.
void AppendGenerateError(std::string& out, std::string_view text);

}  // namespace braid
