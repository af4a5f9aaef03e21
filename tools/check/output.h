// Formats for the findings of `braid check`: text for people, JSON for programs, workflow commands for
// GitHub.
#pragma once

#include <string>

#include "check/checker.h"

namespace braid::check {

// Returns a line for each finding, "FILE:LINE:COLUMN: LEVEL: problem; advice", and a last line with the
// counts. `color` highlights the levels for a terminal.
std::string AsText(const CheckResult& result, bool color);
// Returns one JSON object; docs/check.md describes its schema.
std::string AsJson(const CheckResult& result);
// Returns workflow commands: "::error file=...,line=...,col=...::...".
std::string AsGithub(const CheckResult& result);

// Returns the counts: "checked 3 models: 1 error, 2 notes".
std::string SummaryLine(const CheckResult& result);

// Returns the position of a finding: "FILE:LINE:COLUMN", or "FILE" if it concerns the whole file.
std::string PlaceText(const Finding& finding);
// Returns the problem and the advice on one line.
std::string MessageText(const Finding& finding);

}  // namespace braid::check
