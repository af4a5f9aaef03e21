// GraphCheck: a graph of a config.json, or a graph.pbtxt by itself, loaded as the server loads it.
#pragma once

#include <string>

#include "check/finding.h"
#include "check/load_sandbox.h"
#include "check/summary.h"
#include "config/ovms_config.h"

namespace braid::check {

// Adds the findings about a graph, and publishes it in the sandbox's catalog when it loads. `entry` is the place of its entry,
// for findings about a missing file; without a path where there is no entry.
void CheckGraph(LoadSandbox& sandbox, const OvmsGraphConfig& graph, const Finding& entry, Findings& findings,
                Summary& summary);

}  // namespace braid::check
