// What a server waits for before it stops: the sequences that its clients have not ended.
#pragma once

#include <cstdint>

#include "serving/catalog.h"

namespace braid {

// Sequences that exist now, of all servables.
uint64_t LiveSequences(const Catalog& catalog);

// Returns when there are none, at the latest at `deadline_ns` (SteadyNowNs() time). Returns how many are
// left.
uint64_t WaitForSequences(const Catalog& catalog, int64_t deadline_ns);

}  // namespace braid
