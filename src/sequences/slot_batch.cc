#include "sequences/slot_batch.h"

#include <algorithm>

namespace braid {

BatchDecision DecideSlots(const SequencePolicy& policy, std::span<const SlotView> slots, int64_t now_ns) {
  size_t ready = 0;
  size_t covered = 0;
  int64_t oldest_ns = kNeverNs;
  for (size_t i = 0; i < slots.size(); ++i) {
    if (slots[i].taken) covered = i + 1;
    if (!slots[i].ready) continue;
    ++ready;
    oldest_ns = std::min(oldest_ns, slots[i].arrived_ns);
  }
  if (ready == 0) return {};
  const double utilization = static_cast<double>(ready) / static_cast<double>(policy.slots);
  if (utilization >= policy.minimum_utilization) return {.count = covered};
  const int64_t wait_until_ns = oldest_ns + policy.max_delay_ns;
  if (now_ns >= wait_until_ns) return {.count = covered};
  return {.wait_until_ns = wait_until_ns};
}

}  // namespace braid
