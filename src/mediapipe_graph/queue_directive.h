// The line of a graph.pbtxt that limits the number of concurrent runs of the graph:
//
//   # OVMS_GRAPH_QUEUE_MAX_SIZE: AUTO
//   # OVMS_GRAPH_QUEUE_MAX_SIZE: 4
#pragma once

#include <cstddef>
#include <string_view>

#include "base/status.h"

namespace braid {

// Returns the limit of the first such line in `pbtxt`. AUTO means `cores` (1 at least), a number is at most
// `cores`, and 0 or no line means no limit. Errors: kGraphConfigFileInvalid for other values.
Result<size_t> ParseQueueDirective(std::string_view pbtxt, size_t cores);

}  // namespace braid
