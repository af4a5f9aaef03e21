// The decisions of the scheduler as stateless functions: which waiting requests form a batch and when, and
// how many executions an instance gets ahead of time.
#pragma once

#include <cstdint>
#include <limits>
#include <span>

#include "scheduling/batching_policy.h"
#include "serving/request.h"
#include "serving/servable.h"

namespace braid {

inline constexpr int64_t kNeverNs = std::numeric_limits<int64_t>::max();

// The properties of a waiting request that batching depends on.
struct WaitingRequest {
  // At least 1: a request without rows has a cost too, and a batch of such requests must be bounded.
  int64_t rows = 1;
  int64_t arrived_ns = 0;
  // Whether it can share a batch with the first request of the queue.
  bool joins_first = true;
};

// Take the first `count` requests now, or none and decide again at `wait_until_ns`.
struct BatchDecision {
  size_t count = 0;
  int64_t wait_until_ns = kNeverNs;
  bool operator==(const BatchDecision&) const = default;
};

// Decides the batch for an instance that can take an execution. `waiting` is a prefix of the queue, in
// leaving order: not empty, and long enough for LastOfInterest().
//  - The largest preferred size that the first requests add up to goes at once.
//  - A batch that cannot grow (it is full, or the next request does not fit) goes at once.
//  - Any other batch waits until its oldest request has waited for max_delay_ns.
BatchDecision DecideBatch(const BatchingPolicy& policy, std::span<const WaitingRequest> waiting,
                          int64_t now_ns);

// Returns whether requests after the last of `waiting` cannot affect DecideBatch(). `rows` is the sum over
// `waiting`.
bool LastOfInterest(const BatchingPolicy& policy, const WaitingRequest& last, int64_t rows);

// Returns whether two requests may be in one batch. For inputs that both have, the shapes beyond the batch
// dimension must be equal, except inputs with allow_ragged_batch. The backend receives requests separately,
// so one may lack an optional input that the other has.
bool CanShareBatch(const ServableInfo& info, const InferenceRequest& a, const InferenceRequest& b);

// Returns how many executions an instance may have inside, including the running one, when no instance is
// idle. 1 means that none is handed over ahead.
//
// An instance that gets its next execution only after the previous one has ended is idle in between, for a
// round trip between threads (~40 us). A model that runs for 20 us would suffer. But an execution that was
// handed over can no longer be cancelled, batched or moved to an idle instance. So only as much is handed
// over as begins within 200 us.
//   execute_ns    the usual time of an execution; 0 if not known yet
//   running_ns    how long the current execution has run
//   batches       whether waiting requests would be run together: then one execution ahead is enough, and the
//                 others gain by waiting
int PipelineDepth(int64_t execute_ns, int64_t running_ns, bool batches);

// Returns the new running mean of execution times, for PipelineDepth(). A single long execution does not move
// it far.
int64_t UpdateExecuteTime(int64_t mean_ns, int64_t sample_ns);

}  // namespace braid
