// JSON for people to read.
#pragma once

#include <string>

#include "base/json.h"

namespace braid {

// Each value on a line of its own, indented, with a line's end behind; otherwise as DumpJson().
std::string DumpJsonLines(const Json& json);

}  // namespace braid
