// Reads the inputs that name the sequence for a stateful servable (serving/sequence_inputs.h) from the JSON
// of the REST API. Values are integers without a sign. Other values give REST_COULD_NOT_PARSE_INPUT, or
// REST_COULD_NOT_PARSE_INSTANCE for rows.
#pragma once

#include <simdjson.h>

#include <span>
#include <string_view>

#include "base/status.h"
#include "serving/sequence_inputs.h"

namespace braid {

// Reads column format: `value` is the whole tensor, [10]. A number outside an array has no shape.
Result<SequenceInput> ReadSequenceColumn(std::string_view name, simdjson::dom::element value);

// Reads row format: `values` has one for each instance. OpenVINO Model Server defines no name of a sequence
// here. A plain number in each instance counts as one for all of them. An array gives a tensor with one
// dimension too many. Errors: INVALID_ARGUMENT if the instances have different numbers. REQUIRES: `values` is
// not empty.
Result<SequenceInput> ReadSequenceRows(std::string_view name, std::span<const simdjson::dom::element> values);

}  // namespace braid
