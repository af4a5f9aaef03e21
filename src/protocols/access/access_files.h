// Functions for the files of secrets and rights.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "base/status.h"

namespace braid {

// Reads a whole file. `what` names the file in errors. Errors: INVALID_ARGUMENT if it cannot be read or is
// larger than 16 MiB.
Result<std::string> ReadAccessFile(std::string_view what, const std::string& path);

// Calls `read` for each line that is neither empty nor begins with '#', without the space around it. Returns
// the first error of `read`, after "line {n}: ".
Status ForEachLine(std::string_view text, const std::function<Status(std::string_view line)>& read);

}  // namespace braid
