// "Can I move?": the report of `braid check --report` on the files of a user of Triton or OpenVINO Model Server.
#pragma once

#include <string>

#include "check/checker.h"

namespace braid::check {

// What there is, what works unchanged, what needs a change and which, what cannot be served and why. `markdown` writes
// headings and tables for a page, else plain text.
std::string MovingReport(const CheckResult& result, bool markdown);

}  // namespace braid::check
