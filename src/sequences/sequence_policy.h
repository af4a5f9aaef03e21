// SequencePolicy: the scheduling of one model's sequences: its `sequence_batching` in the scheduler's terms.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/status.h"
#include "scheduling/batching_policy.h"

namespace braid {

enum class SequenceStrategy : unsigned char {
  kDirect,  // a sequence owns a slot of the batch
  kOldest,  // the oldest requests of the candidates go together
};

struct SequencePolicy {
  SequenceStrategy strategy = SequenceStrategy::kDirect;
  // The sequences that one instance has at a time: slots of a batch, or candidates.
  size_t slots = 1;
  int64_t idle_ns = 0;  // a sequence without a request for this long is over
  // For kDirect: a batch waits until this share of the slots has a request, for max_delay_ns at most.
  double minimum_utilization = 0;
  int64_t max_delay_ns = 0;
  // For kOldest: which requests go together, and when.
  BatchingPolicy batching;
  // Each request is a sequence, which the model may reschedule.
  bool iterative = false;
};

// Errors: INVALID_ARGUMENT naming the invalid field of `sequence_batching`.
Result<SequencePolicy> SequencePolicyFromConfig(const inference::ModelConfig& config);

}  // namespace braid
