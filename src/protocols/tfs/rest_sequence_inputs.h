// The inputs that name the sequence of a request to a stateful servable (serving/sequence_inputs.h), out of
// the JSON of the REST API. Their values are numbers without a sign and without a fraction; for anything else
// the functions return REST_COULD_NOT_PARSE_INPUT or, for rows, REST_COULD_NOT_PARSE_INSTANCE.
#pragma once

#include <simdjson.h>

#include <span>
#include <string_view>

#include "base/status.h"
#include "serving/sequence_inputs.h"

namespace braid {

// Column format: `value` is the whole tensor, [10]. A number without an array has no shape.
Result<SequenceInput> ReadSequenceColumn(std::string_view name, simdjson::dom::element value);

// Row format: `values` has one for each instance. OpenVINO Model Server knows no way to name a sequence here;
// a plain number in each instance is taken as one for all of them. An array gives a tensor of one dimension
// too many. Errors: INVALID_ARGUMENT when the instances have different numbers. REQUIRES: there is one.
Result<SequenceInput> ReadSequenceRows(std::string_view name, std::span<const simdjson::dom::element> values);

}  // namespace braid
