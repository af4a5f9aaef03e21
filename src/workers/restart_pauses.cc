#include "workers/restart_pauses.h"

#include <algorithm>

namespace braid {

int64_t RestartPauses::After(const Life& life) {
  if (life.up_ns >= kForgottenNs) {
    failures_ = 0;
    return 0;
  }
  if (life.served) return 0;
  if (life.killed) return kFirstNs;
  ++failures_;
  constexpr int kEnoughDoublings = 10;
  return std::min(kFirstNs << std::min(failures_ - 1, kEnoughDoublings), kLongestNs);
}

}  // namespace braid
