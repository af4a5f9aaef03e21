// Time. Steady times are nanoseconds of CLOCK_MONOTONIC, which is the same clock in the workers. Wall times
// are for people and clients.
#pragma once

#include <cstdint>

namespace braid {

inline constexpr int64_t kMillisecondNs = 1'000'000;
inline constexpr int64_t kSecondNs = 1000 * kMillisecondNs;

// Returns nanoseconds since an arbitrary point in the past. The value never decreases and is comparable
// between processes of one machine.
int64_t SteadyNowNs();

// Milliseconds since 1970-01-01 UTC.
int64_t WallNowMs();

}  // namespace braid
