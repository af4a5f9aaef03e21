// Reads the body of POST .../generate and .../generate_stream into an InferenceRequest.
//
//   {"PROMPT": "once upon", "MAX_TOKENS": 16, "temperature": 0.5, "id": "7", "parameters": {"seed": 1}}
//
// The body is a flat JSON object. Keys that name inputs become tensors, and "id" the request's id. The
// members of "parameters" and all other keys become parameters. For a stateful model "sequence_id" and
// "sequence_control_input" are inputs too.
#pragma once

#include <simdjson.h>

#include <string_view>

#include "base/status.h"
#include "protocols/kserve/http/infer_request.h"
#include "serving/request.h"

namespace braid {

// Reads the body into `request`, except for the model's identity, times and sink. An input is one value or an
// array. Its shape is fitted to the model's: the batch dimension is 1, and a dimension of any size takes the
// remaining values. If several dimensions have any size, the last one takes them, and the others are 1.
// Errors: texts of the protocol, for the first wrong key in the body. REQUIRES: SIMDJSON_PADDING bytes after
// `json` are readable.
Status ReadGenerateRequest(std::string_view json, const HttpInferTarget& target,
                           simdjson::dom::parser& parser, InferenceRequest& request);

}  // namespace braid
