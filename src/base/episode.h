// Episode: when something begins that then happens again and again, for one line in the log in place of many.
//
//   if (refusals.Goes()) BRAID_LOG_WARNING(log, "connections are refused: ...");
#pragma once

#include <atomic>
#include <cstdint>

#include "base/clock.h"

namespace braid {

class Episode {
 public:
  // Notes that it happens now; whether it had not for a minute. Any thread; of several at once, one is told
  // so.
  bool Goes(int64_t now_ns = SteadyNowNs()) {
    constexpr int64_t kQuietNs = 60'000'000'000;
    const int64_t last_ns = last_ns_.exchange(now_ns, std::memory_order_relaxed);
    return last_ns == 0 || now_ns - last_ns > kQuietNs;
  }

 private:
  std::atomic<int64_t> last_ns_{0};
};

}  // namespace braid
