// The decision of the direct strategy as a stateless function: when a batch of slots runs.
#pragma once

#include <cstdint>
#include <span>

#include "scheduling/batcher.h"
#include "sequences/sequence_policy.h"

namespace braid {

// The properties of an instance's slot that batching depends on.
struct SlotView {
  bool taken = false;      // a sequence owns it
  bool ready = false;      // and has a request that can run now
  int64_t arrived_ns = 0;  // when that request came
};

// Runs the slots 0 to `count` - 1 now, or none and decides again at `wait_until_ns`. `slots` are those of an
// idle instance, from the first on.
//  - A batch covers all slots up to the highest that is taken; slots in it that are not ready are padded.
//  - It runs when a slot is ready and either minimum_utilization of policy.slots are, or the oldest request
//    has waited for max_delay_ns. With a minimum of 0 one ready slot is enough.
BatchDecision DecideSlots(const SequencePolicy& policy, std::span<const SlotView> slots, int64_t now_ns);

}  // namespace braid
