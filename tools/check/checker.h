// `braid check` without its command line: from paths to findings.
#pragma once

#include <string>
#include <vector>

#include "base/status.h"
#include "check/finding.h"
#include "check/import.h"
#include "check/summary.h"
#include "server/options.h"

namespace braid::check {

struct CheckRequest {
  // See FindTargets(). Repositories among them are those of one server.
  std::vector<std::string> paths;
  // What the files are to be served with; its config.json, if it names one, is checked with the repositories.
  ServerOptions server;
  ImportOptions import;
};

struct CheckResult {
  Findings findings;
  Summary summary;
};

// Blocks while files are read, models are compiled and, where that is asked for, imported. Nothing is left running. Errors:
// a path that holds nothing, an option that names what cannot be used.
Result<CheckResult> Check(const CheckRequest& request);

}  // namespace braid::check
