// From the body of POST ...:predict to an InferenceRequest.
#pragma once

#include <simdjson.h>

#include <string_view>

#include "base/status.h"
#include "serving/request.h"
#include "serving/servable.h"

namespace braid {

// The two forms of a request, which its response has too: a list of rows, or whole tensors.
enum class TfsFormat : unsigned char { kRow, kColumn };

// Fills the inputs of `request`; the numbers go straight to memory of servable.input_allocator(). Behind
// `body`, SIMDJSON_PADDING bytes can be read. Inputs that the servable does not have are kept without data,
// for CheckRequest() to refuse. What names the sequence of a request to a stateful servable is read before
// other inputs are, and is no input then; `sequence_header` is what the header says of it (empty: nothing).
// Errors: texts of OpenVINO Model Server; those of NameSequence() and of the allocator.
Result<TfsFormat> ReadRestPredictRequest(std::string_view body, std::string_view sequence_header,
                                         Servable& servable, simdjson::dom::parser& parser,
                                         InferenceRequest& request);

}  // namespace braid
