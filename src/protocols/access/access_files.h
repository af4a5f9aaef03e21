// What the files of secrets and rights have in common.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "base/status.h"

namespace braid {

// A whole file; `what` names it in errors. Errors: INVALID_ARGUMENT when it cannot be read or has more than
// 16 MiB.
Result<std::string> ReadAccessFile(std::string_view what, const std::string& path);

// Calls `read` for each line, without the space around it, that is not empty and does not start with '#'.
// Errors: the first of `read`, behind "line {n}: ".
Status ForEachLine(std::string_view text, const std::function<Status(std::string_view line)>& read);

}  // namespace braid
