// The queueing and batching policy of one model: its configuration in the scheduler's terms.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "base/status.h"

namespace inference {
class ModelConfig;
}

namespace braid {

// The policy for requests of one priority level.
struct QueuePolicy {
  bool delay_on_timeout = false;   // requests that time out wait after the others instead of failing
  int64_t default_timeout_ns = 0;  // 0: none
  bool allow_timeout_override = false;
  int64_t max_queue_size = 0;  // waiting requests; 0: only the bound of the whole queue applies
};

struct BatchingPolicy {
  // Rows of one execution. 0: no batch dimension, and one request per execution.
  int64_t max_batch_size = 0;
  // False: one request per execution, regardless of max_batch_size.
  bool dynamic = false;
  std::vector<int64_t> preferred_sizes;  // ascending, within 1..max_batch_size
  int64_t max_delay_ns = 0;
  bool preserve_ordering = false;
  // Priority levels are indexes; 0 is the highest.
  uint32_t level_count = 1;
  uint32_t default_level = 0;  // of requests that name none
  QueuePolicy default_policy;
  std::map<uint32_t, QueuePolicy> level_policies;  // of the levels that do not use default_policy
  // Whether a busy instance gets its next executions ahead of time, where they wait outside the queue. False
  // if the queue has timeouts, bounds or levels, which apply only to requests in the queue.
  bool hands_ahead = true;

  const QueuePolicy& PolicyOf(uint32_t level) const {
    const auto found = level_policies.find(level);
    return found == level_policies.end() ? default_policy : found->second;
  }
  bool one_request_each() const { return !dynamic || max_batch_size <= 0; }
};

// Converts microseconds. Times beyond some centuries become the longest one, so that sums with the clock do
// not overflow.
int64_t NsFromMicroseconds(uint64_t us);

// Errors: INVALID_ARGUMENT naming the invalid field of `dynamic_batching`.
Result<BatchingPolicy> BatchingPolicyFromConfig(const inference::ModelConfig& config);

}  // namespace braid
