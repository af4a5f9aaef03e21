// Episode: a recurring event, such as refused connections, that is logged once when it begins.
#pragma once

#include <atomic>
#include <cstdint>

#include "base/clock.h"

namespace braid {

class Episode {
 public:
  // Notes that the event happens now. Returns true if it did not happen in the minute before. Any thread; if
  // several call at once, one gets true.
  bool Goes(int64_t now_ns = SteadyNowNs()) {
    constexpr int64_t kQuietNs = 60'000'000'000;
    const int64_t last_ns = last_ns_.exchange(now_ns, std::memory_order_relaxed);
    return last_ns == 0 || now_ns - last_ns > kQuietNs;
  }

 private:
  std::atomic<int64_t> last_ns_{0};
};

}  // namespace braid
