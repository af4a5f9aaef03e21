// How the sequences of one model are scheduled: what its `sequence_batching` says, in the terms of the
// scheduler.
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
  // Sequences that one instance has at a time: the places of a batch, or the candidates.
  size_t slots = 1;
  int64_t idle_ns = 0;  // a sequence without a request for so long is over
  // For kDirect: a batch waits until so many of the slots have a request, but no longer than that.
  double minimum_utilization = 0;
  int64_t max_delay_ns = 0;
  // For kOldest: which requests go together, and when.
  BatchingPolicy batching;
  // Each request is a sequence of its own, which the model may put back to run again.
  bool iterative = false;
};

// Errors: INVALID_ARGUMENT naming the field of `sequence_batching` that cannot be.
Result<SequencePolicy> SequencePolicyFromConfig(const inference::ModelConfig& config);

}  // namespace braid
