// Parameters from workers: the JSON text of an object.
#pragma once

#include <string_view>

#include "serving/parameters.h"

namespace braid {

// Returns the booleans, numbers and strings of the object; other values are left out. Returns none for "" or
// a text that is not an object.
Parameters ParametersFromJson(std::string_view json);

}  // namespace braid
