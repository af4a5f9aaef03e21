#include "sequences/sequence_drain.h"

#include <algorithm>
#include <chrono>
#include <thread>

#include "base/clock.h"

namespace braid {
namespace {

// A stopping server need not notice the end at once.
constexpr int64_t kLookNs = 20'000'000;

}  // namespace

uint64_t LiveSequences(const Catalog& catalog) {
  uint64_t live = 0;
  for (const auto& servable : catalog.All()) {
    if (SequenceKeeper* sequences = servable->sequences()) live += sequences->counts().active;
  }
  return live;
}

uint64_t WaitForSequences(const Catalog& catalog, int64_t deadline_ns) {
  for (;;) {
    const uint64_t live = LiveSequences(catalog);
    const int64_t left_ns = deadline_ns - SteadyNowNs();
    if (live == 0 || left_ns <= 0) return live;
    std::this_thread::sleep_for(std::chrono::nanoseconds(std::min(left_ns, kLookNs)));
  }
}

}  // namespace braid
