// Reads the body of POST ...:predict into an InferenceRequest.
#pragma once

#include <simdjson.h>

#include <string_view>

#include "base/status.h"
#include "serving/request.h"
#include "serving/servable.h"

namespace braid {

// The format of a request and of its response: a list of rows, or whole tensors.
enum class TfsFormat : unsigned char { kRow, kColumn };

// Sets the inputs of `request`; writes the numbers directly into memory of servable.input_allocator().
// Unknown inputs are kept without data, so that CheckRequest() refuses them. Inputs that name the sequence
// for a stateful servable are read first and removed. `sequence_header` is the value of the header (empty:
// none). Errors: texts of OpenVINO Model Server; those of NameSequence() and of the allocator. REQUIRES:
// SIMDJSON_PADDING bytes after `body` are readable.
Result<TfsFormat> ReadRestPredictRequest(std::string_view body, std::string_view sequence_header,
                                         Servable& servable, simdjson::dom::parser& parser,
                                         InferenceRequest& request);

}  // namespace braid
