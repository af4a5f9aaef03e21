// Checks a graph of a config.json, or a graph.pbtxt by itself. Loads it as the server does.
#pragma once

#include <string>

#include "check/finding.h"
#include "check/load_sandbox.h"
#include "check/summary.h"
#include "config/ovms_config.h"

namespace braid::check {

// Adds the findings about a graph, and publishes it in the sandbox's catalog if it loads. Findings about a
// missing file stand at `entry`, the position of the graph's entry in the config.json. Its path is empty if
// there is no entry.
void CheckGraph(LoadSandbox& sandbox, const OvmsGraphConfig& graph, const Finding& entry, Findings& findings,
                Summary& summary);

}  // namespace braid::check
