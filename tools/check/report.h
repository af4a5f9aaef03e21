// "Can I move?": the report of `braid check --report` for users of Triton and OpenVINO Model Server.
#pragma once

#include <string>

#include "check/checker.h"

namespace braid::check {

// Returns the report: all servables, and which of them work, need a change, or cannot be served, with the
// reasons. With `markdown` it has headings and tables; otherwise it is plain text.
std::string MovingReport(const CheckResult& result, bool markdown);

}  // namespace braid::check
