// Request parameters with a meaning of their own, which clients and forwarded headers cannot set as free
// ones.
#pragma once

#include <string_view>

namespace braid {

// Whether a name begins with "triton_", which the protocol keeps for itself.
bool HasReservedPrefix(std::string_view name);

// The same, or one of sequence_id, sequence_start, sequence_end, priority, timeout, binary_data_output and
// headers; case does not matter, since names of headers come in any.
bool IsReservedParameter(std::string_view name);

}  // namespace braid
