#include "scheduling/batching_policy.h"

#include <algorithm>
#include <limits>

#include "model_config.pb.h"

namespace braid {
namespace {

constexpr uint64_t kMostLevels = std::numeric_limits<uint32_t>::max();

QueuePolicy FromConfig(const inference::ModelQueuePolicy& config) {
  QueuePolicy policy;
  policy.delay_on_timeout = config.timeout_action() == inference::ModelQueuePolicy::DELAY;
  policy.default_timeout_ns = NsFromMicroseconds(config.default_timeout_microseconds());
  policy.allow_timeout_override = config.allow_timeout_override();
  policy.max_queue_size = config.max_queue_size();
  return policy;
}

bool Limits(const QueuePolicy& policy) {
  return policy.default_timeout_ns > 0 || policy.allow_timeout_override || policy.max_queue_size > 0;
}

}  // namespace

int64_t NsFromMicroseconds(uint64_t us) {
  constexpr uint64_t kMost = static_cast<uint64_t>(std::numeric_limits<int64_t>::max()) / 4000;
  return static_cast<int64_t>(std::min(us, kMost)) * 1000;
}

Result<BatchingPolicy> BatchingPolicyFromConfig(const inference::ModelConfig& config) {
  BatchingPolicy policy;
  policy.max_batch_size = config.max_batch_size();
  if (!config.has_dynamic_batching()) return policy;

  const inference::ModelDynamicBatching& batching = config.dynamic_batching();
  policy.dynamic = true;
  policy.max_delay_ns = NsFromMicroseconds(batching.max_queue_delay_microseconds());
  policy.preserve_ordering = batching.preserve_ordering();
  for (int32_t size : batching.preferred_batch_size()) {
    if (size <= 0) {
      return InvalidArgumentError("dynamic batching preferred size must be positive for " + config.name());
    }
    if (size > config.max_batch_size()) {
      return InvalidArgumentError("dynamic batching preferred size must be <= max batch size for " +
                                  config.name());
    }
    policy.preferred_sizes.push_back(size);
  }
  std::sort(policy.preferred_sizes.begin(), policy.preferred_sizes.end());

  const uint64_t levels = batching.priority_levels();
  if (levels > kMostLevels) {
    return InvalidArgumentError("priority_levels must be <= " + std::to_string(kMostLevels) + " for " +
                                config.name());
  }
  if (levels > 0 && (batching.default_priority_level() == 0 || batching.default_priority_level() > levels)) {
    return InvalidArgumentError("default_priority_level must be in range [1, " + std::to_string(levels) +
                                "] for " + config.name());
  }
  policy.level_count = static_cast<uint32_t>(std::max<uint64_t>(levels, 1));
  policy.default_level = levels == 0 ? 0 : static_cast<uint32_t>(batching.default_priority_level() - 1);
  policy.default_policy = FromConfig(batching.default_queue_policy());
  for (const auto& [level, queue_policy] : batching.priority_queue_policy()) {
    if (level == 0 || level > levels) {
      return InvalidArgumentError("priority_queue_policy names level " + std::to_string(level) +
                                  ", which is not within priority_levels, for " + config.name());
    }
    policy.level_policies[static_cast<uint32_t>(level - 1)] = FromConfig(queue_policy);
  }
  policy.hands_ahead = policy.level_count == 1 && !Limits(policy.PolicyOf(0));
  return policy;
}

}  // namespace braid
