#include "base/clock.h"

#include <ctime>

namespace braid {
namespace {
int64_t NowNs(clockid_t id) {
  timespec now{};
  clock_gettime(id, &now);
  return int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}
}  // namespace

int64_t SteadyNowNs() { return NowNs(CLOCK_MONOTONIC); }
int64_t WallNowMs() { return NowNs(CLOCK_REALTIME) / 1'000'000; }

}  // namespace braid
