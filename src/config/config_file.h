// Reads the text files that say which servables are wanted: config.json, graph.pbtxt.
#pragma once

#include <string>

#include "base/status.h"

namespace braid {

// Reads a whole file of at most 16 MiB. Errors: kFileInvalid.
Result<std::string> ReadConfigFile(const std::string& path);

}  // namespace braid
