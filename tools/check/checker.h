// `braid check` without its command line: turns paths into findings.
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
  // See FindTargets(). All repositories among them belong to one server.
  std::vector<std::string> paths;
  // The options of the server that would load the files. Its config.json, if it names one, is checked with
  // the repositories.
  ServerOptions server;
  ImportOptions import;
};

struct CheckResult {
  Findings findings;
  Summary summary;
};

// Checks the files: reads them, compiles models and, if requested, imports Python models. Blocks until no
// process of it runs any more. Errors: a path holds nothing that can be checked; an option names something
// unusable.
Result<CheckResult> Check(const CheckRequest& request);

}  // namespace braid::check
