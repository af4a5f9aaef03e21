// Request parameters with a fixed meaning, which clients and forwarded headers cannot set as free parameters.
#pragma once

#include <string_view>

namespace braid {

// Whether a name begins with "triton_", which the protocol reserves.
bool HasReservedPrefix(std::string_view name);

// Whether a name begins with "triton_", or is sequence_id, sequence_start, sequence_end, priority, timeout,
// binary_data_output or headers. Ignores case, because names of headers have any.
bool IsReservedParameter(std::string_view name);

}  // namespace braid
