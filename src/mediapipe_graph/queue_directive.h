// The line of a graph.pbtxt that bounds how many runs of the graph are under way at once:
//
//   # OVMS_GRAPH_QUEUE_MAX_SIZE: AUTO
//   # OVMS_GRAPH_QUEUE_MAX_SIZE: 4
#pragma once

#include <cstddef>
#include <string_view>

#include "base/status.h"

namespace braid {

// What the first such line of `pbtxt` says: AUTO is `cores` (1 at least), a number is at most `cores`, 0 (as
// no line at all) is no bound. Errors: kGraphConfigFileInvalid for anything else.
Result<size_t> ParseQueueDirective(std::string_view pbtxt, size_t cores);

}  // namespace braid
