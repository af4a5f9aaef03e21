// Time. Steady times are nanoseconds of CLOCK_MONOTONIC, which the workers share; wall times are for people
// and clients.
#pragma once

#include <cstdint>

namespace braid {

inline constexpr int64_t kMillisecondNs = 1'000'000;
inline constexpr int64_t kSecondNs = 1000 * kMillisecondNs;

// Nanoseconds since an arbitrary point in the past; never goes back; comparable between processes of one
// machine.
int64_t SteadyNowNs();

// Milliseconds since 1970-01-01 UTC.
int64_t WallNowMs();

}  // namespace braid
