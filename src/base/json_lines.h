// JSON formatted for people.
#pragma once

#include <string>

#include "base/json.h"

namespace braid {

// Returns the JSON indented, with each value on its own line and a line end after the last. Otherwise like
// DumpJson().
std::string DumpJsonLines(const Json& json);

}  // namespace braid
