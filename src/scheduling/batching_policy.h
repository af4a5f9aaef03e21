// How the requests of one model wait and go together: what its configuration says, in the terms of the
// scheduler.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "base/status.h"

namespace inference {
class ModelConfig;
}

namespace braid {

// For the requests of one priority level.
struct QueuePolicy {
  bool delay_on_timeout = false;   // what times out waits behind the others instead of failing
  int64_t default_timeout_ns = 0;  // 0: none
  bool allow_timeout_override = false;
  int64_t max_queue_size = 0;  // waiting requests; 0: the bound of the whole queue is the only one
};

struct BatchingPolicy {
  // Rows of one execution. 0: no batch dimension, and one request an execution.
  int64_t max_batch_size = 0;
  // False: one request an execution, whatever max_batch_size is.
  bool dynamic = false;
  std::vector<int64_t> preferred_sizes;  // ascending, within 1..max_batch_size
  int64_t max_delay_ns = 0;
  bool preserve_ordering = false;
  // Priority levels, by index: 0 is the highest.
  uint32_t level_count = 1;
  uint32_t default_level = 0;  // of requests that name none
  QueuePolicy default_policy;
  std::map<uint32_t, QueuePolicy> level_policies;  // of the levels with a policy of their own
  // Whether a busy instance is given its next executions ahead, where they wait outside the queue. Not so
  // when the queue has time-outs, bounds or levels, which hold for what waits in it alone.
  bool hands_ahead = true;

  const QueuePolicy& PolicyOf(uint32_t level) const {
    const auto found = level_policies.find(level);
    return found == level_policies.end() ? default_policy : found->second;
  }
  bool one_request_each() const { return !dynamic || max_batch_size <= 0; }
};

// Times beyond some centuries are as good as the longest one; this keeps sums with the clock from
// overflowing.
int64_t NsFromMicroseconds(uint64_t us);

// Errors: INVALID_ARGUMENT naming the field of `dynamic_batching` that cannot be.
Result<BatchingPolicy> BatchingPolicyFromConfig(const inference::ModelConfig& config);

}  // namespace braid
