// Rules of OpenVINO Model Server for HTTP inputs where they differ from Triton's.
#pragma once

#include <simdjson.h>

#include <cstdint>
#include <optional>

#include "base/status.h"
#include "serving/request.h"
#include "serving/servable.h"

namespace braid {

// Returns the number of bytes after the JSON part that belong to an input with neither data nor
// binary_data_size; `left` bytes remain there. It is the size that the shape implies. If the only input is
// one string, or one element of a user's own type, it is all of them. nullopt if none remain. Errors: as
// Fault, if the size is undefined.
Result<std::optional<uint64_t>> ImpliedBinarySize(const Tensor& tensor, size_t left, bool only_input);

// Checks that the input at `index` has as many values as its shape implies; `data` is null if it has none. A
// fault of the request's shapes is reported before one of the values. Errors: as Fault.
Status CheckJsonValueCount(const ServableInfo& info, const InferenceRequest& request, size_t index,
                           const simdjson::dom::element* data);

// Adds a parameter of the request to the graph's parameters. Errors: INVALID_ARGUMENT if it is not a string,
// boolean or integer.
Status ReadGraphParameter(std::string_view name, simdjson::dom::element value, Parameters& parameters);

}  // namespace braid
