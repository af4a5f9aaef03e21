// Parameters as they come from workers: the JSON text of an object.
#pragma once

#include <string_view>

#include "serving/parameters.h"

namespace braid {

// Booleans, numbers and strings; what is neither is left out, and so is everything when the text is not that
// of an object. "" gives none.
Parameters ParametersFromJson(std::string_view json);

}  // namespace braid
