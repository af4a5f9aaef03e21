// How the findings of `braid check` are written: for people, for programs, for GitHub's pages of changes.
#pragma once

#include <string>

#include "check/checker.h"

namespace braid::check {

// A line for each finding, "FILE:LINE:COLUMN: LEVEL: what is wrong; what to write instead", and a last one with their
// numbers. `color` marks the levels for a terminal.
std::string AsText(const CheckResult& result, bool color);
// One JSON object, whose schema is docs/check.md.
std::string AsJson(const CheckResult& result);
// Workflow commands: "::error file=...,line=...,col=...::...".
std::string AsGithub(const CheckResult& result);

// "checked 3 models: 1 error, 2 notes".
std::string SummaryLine(const CheckResult& result);

// Where a finding is: "FILE:LINE:COLUMN", "FILE" where it is about the whole.
std::string PlaceText(const Finding& finding);
// What is wrong and what to write instead, on one line.
std::string MessageText(const Finding& finding);

}  // namespace braid::check
