// The wait of a stopping server for sequences that its clients have not ended.
#pragma once

#include <cstdint>

#include "serving/catalog.h"

namespace braid {

// Returns the number of sequences of all servables.
uint64_t LiveSequences(const Catalog& catalog);

// Waits until there are none, at most until `deadline_ns` (SteadyNowNs() time). Returns the number that is
// left.
uint64_t WaitForSequences(const Catalog& catalog, int64_t deadline_ns);

}  // namespace braid
