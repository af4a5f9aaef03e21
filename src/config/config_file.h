// Files of text that say what is served: config.json, graph.pbtxt.
#pragma once

#include <string>

#include "base/status.h"

namespace braid {

// A whole file of at most 16 MiB. Errors: kFileInvalid.
Result<std::string> ReadConfigFile(const std::string& path);

}  // namespace braid
