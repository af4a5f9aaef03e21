// Rules of OpenVINO Model Server for the inputs of a request over HTTP that differ from Triton's.
#pragma once

#include <simdjson.h>

#include <cstdint>
#include <optional>

#include "base/status.h"
#include "serving/request.h"
#include "serving/servable.h"

namespace braid {

// How many of the `left` bytes behind the JSON part belong to an input that has neither data nor a
// binary_data_size: as many as its shape says, or all of them when it is the only input, and one string (or
// one element of a user's own type).
// Nothing when none are left. Errors: as Fault, where that cannot be said.
Result<std::optional<uint64_t>> ImpliedBinarySize(const Tensor& tensor, size_t left, bool only_input);

// That the input at `index` has as many values as its shape says; `data` is null when it has none. A fault of
// the shapes of the request is reported before one of the values. Errors: as Fault.
Status CheckJsonValueCount(const ServableInfo& info, const InferenceRequest& request, size_t index,
                           const simdjson::dom::element* data);

// Adds a parameter of a request to those that the graph sees. Errors: INVALID_ARGUMENT for one that is no
// string, boolean or integer.
Status ReadGraphParameter(std::string_view name, simdjson::dom::element value, Parameters& parameters);

}  // namespace braid
