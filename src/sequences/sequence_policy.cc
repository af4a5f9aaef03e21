#include "sequences/sequence_policy.h"

#include <algorithm>

#include "model_config.pb.h"

namespace braid {

Result<SequencePolicy> SequencePolicyFromConfig(const inference::ModelConfig& config) {
  const inference::ModelSequenceBatching& batching = config.sequence_batching();
  SequencePolicy policy;
  policy.idle_ns = NsFromMicroseconds(batching.max_sequence_idle_microseconds());
  policy.iterative = batching.iterative_sequence();
  policy.batching.max_batch_size = config.max_batch_size();
  policy.batching.dynamic = true;
  policy.slots = static_cast<size_t>(std::max(config.max_batch_size(), 1));
  if (policy.idle_ns <= 0) {
    return InvalidArgumentError("max_sequence_idle_microseconds must be positive for " + config.name());
  }
  if (!batching.has_oldest()) {
    policy.max_delay_ns = NsFromMicroseconds(batching.direct().max_queue_delay_microseconds());
    policy.minimum_utilization = static_cast<double>(batching.direct().minimum_slot_utilization());
    return policy;
  }
  const auto& oldest = batching.oldest();
  policy.strategy = SequenceStrategy::kOldest;
  if (oldest.max_candidate_sequences() < 0) {
    return InvalidArgumentError("max_candidate_sequences must not be negative for " + config.name());
  }
  if (oldest.max_candidate_sequences() > 0) {
    policy.slots = static_cast<size_t>(oldest.max_candidate_sequences());
  }
  policy.batching.max_delay_ns = NsFromMicroseconds(oldest.max_queue_delay_microseconds());
  policy.batching.preserve_ordering = oldest.preserve_ordering();
  policy.batching.preferred_sizes.assign(oldest.preferred_batch_size().begin(),
                                         oldest.preferred_batch_size().end());
  std::sort(policy.batching.preferred_sizes.begin(), policy.batching.preferred_sizes.end());
  return policy;
}

}  // namespace braid
