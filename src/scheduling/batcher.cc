#include "scheduling/batcher.h"

#include <algorithm>

namespace braid {
namespace {

constexpr int64_t kMostWorkAheadNs = 200'000;
constexpr int kDeepestPipeline = 32;
// An execution that has run for this long is not merely late on a busy machine.
constexpr int64_t kStuckNs = 2'000'000;

}  // namespace

BatchDecision DecideBatch(const BatchingPolicy& policy, std::span<const WaitingRequest> waiting,
                          int64_t now_ns) {
  if (policy.one_request_each()) return {.count = 1};

  size_t fitting = 0;    // as many as fit
  size_t preferred = 0;  // as many as make the largest preferred size
  int64_t rows = 0;
  int64_t oldest_ns = kNeverNs;
  bool can_grow = true;
  for (const WaitingRequest& request : waiting) {
    // The first request always goes: too large batches were refused earlier.
    if (fitting > 0 && (!request.joins_first || rows + request.rows > policy.max_batch_size)) {
      can_grow = false;
      break;
    }
    rows += request.rows;
    ++fitting;
    oldest_ns = std::min(oldest_ns, request.arrived_ns);
    if (std::binary_search(policy.preferred_sizes.begin(), policy.preferred_sizes.end(), rows))
      preferred = fitting;
  }
  if (preferred > 0) return {.count = preferred};
  if (!can_grow || rows >= policy.max_batch_size) return {.count = fitting};
  const int64_t wait_until_ns = oldest_ns + policy.max_delay_ns;
  if (now_ns >= wait_until_ns) return {.count = fitting};
  return {.wait_until_ns = wait_until_ns};
}

bool LastOfInterest(const BatchingPolicy& policy, const WaitingRequest& last, int64_t rows) {
  return policy.one_request_each() || !last.joins_first || rows >= policy.max_batch_size;
}

bool CanShareBatch(const ServableInfo& info, const InferenceRequest& a, const InferenceRequest& b) {
  for (size_t i = 0; i < a.inputs.size(); ++i) {
    const Tensor& input = a.inputs[i];
    // Requests usually name their inputs in the same order.
    const Tensor* other = i < b.inputs.size() && b.inputs[i].name == input.name ? &b.inputs[i] : nullptr;
    if (other == nullptr) {
      auto found = std::find_if(b.inputs.begin(), b.inputs.end(),
                                [&input](const Tensor& candidate) { return candidate.name == input.name; });
      if (found == b.inputs.end()) continue;
      other = &*found;
    }
    if (input.shape.size() == other->shape.size() &&
        std::equal(input.shape.begin() + (input.shape.empty() ? 0 : 1), input.shape.end(),
                   other->shape.begin() + (other->shape.empty() ? 0 : 1))) {
      continue;
    }
    const TensorSpec* spec = info.FindInput(input.name);
    if (spec == nullptr || !spec->allow_ragged_batch) return false;
  }
  return true;
}

int PipelineDepth(int64_t execute_ns, int64_t running_ns, bool batches) {
  if (execute_ns <= 0 || execute_ns > kMostWorkAheadNs || running_ns > kStuckNs) return 1;
  const int64_t deepest = batches ? 2 : kDeepestPipeline;
  return static_cast<int>(std::min(deepest, 1 + kMostWorkAheadNs / execute_ns));
}

int64_t UpdateExecuteTime(int64_t mean_ns, int64_t sample_ns) {
  if (sample_ns <= 0) return mean_ns;
  if (mean_ns == 0) return std::min(sample_ns, 2 * kMostWorkAheadNs);
  // Larger samples are cut: one sample during which the worker had no core must not make a fast model look
  // slow.
  const int64_t sample = std::min(sample_ns, 2 * kMostWorkAheadNs);
  return mean_ns + (sample - mean_ns) / 8;
}

}  // namespace braid
