// Writes the JSON objects of .../generate and .../generate_stream from an InferenceResponse.
#pragma once

#include <string>
#include <string_view>

#include "base/status.h"
#include "serving/request.h"

namespace braid {

// Appends a flat object: model_name, model_version, the id if there is one, the response's parameters and the
// outputs by name. An output of one value is that value; any other is a flat array. An output, or one of the
// first three, replaces a parameter of the same name. Errors: those of AppendTensorValues(); `out` is then
// unusable. REQUIRES: response.status is OK.
Status AppendGenerateResponse(std::string& out, std::string_view id, const InferenceResponse& response);

// Appends {"error":"text"}.
void AppendGenerateError(std::string& out, std::string_view text);

}  // namespace braid
