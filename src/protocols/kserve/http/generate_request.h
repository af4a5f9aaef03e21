// From the body of POST .../generate and .../generate_stream to an InferenceRequest.
//
//   {"PROMPT": "once upon", "MAX_TOKENS": 16, "temperature": 0.5, "id": "7", "parameters": {"seed": 1}}
//
// A flat JSON object. Keys that are names of inputs become tensors, "id" the request's id, the members of
// "parameters" and all other keys parameters. To a stateful model "sequence_id" and "sequence_control_input"
// are inputs as well.
#pragma once

#include <simdjson.h>

#include <string_view>

#include "base/status.h"
#include "protocols/kserve/http/infer_request.h"
#include "serving/request.h"

namespace braid {

// Reads the body, behind which SIMDJSON_PADDING bytes can be read. Identity of the model, times and sink of
// the request are the caller's. An input is one value or an array of values, whose shape is fitted to the
// model's: the batch dimension is 1, and a dimension of any size takes what the others leave (the last one,
// where there are several; the others are 1 then). Errors: texts of the protocol, for the first key in the
// order of the body that is wrong.
Status ReadGenerateRequest(std::string_view json, const HttpInferTarget& target,
                           simdjson::dom::parser& parser, InferenceRequest& request);

}  // namespace braid
