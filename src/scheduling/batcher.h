// The decisions of the scheduler, as functions without state: which waiting requests go together and when,
// and how many executions an instance is given ahead.
#pragma once

#include <cstdint>
#include <limits>
#include <span>

#include "scheduling/batching_policy.h"
#include "serving/request.h"
#include "serving/servable.h"

namespace braid {

inline constexpr int64_t kNeverNs = std::numeric_limits<int64_t>::max();

// A waiting request, as far as batching looks at it.
struct WaitingRequest {
  // At least 1: a request without rows costs an execution something too, and a batch of such must have an
  // end.
  int64_t rows = 1;
  int64_t arrived_ns = 0;
  // Whether it can go together with the first of the queue.
  bool joins_first = true;
};

// Take the first `count` requests now, or none and look again at `wait_until_ns`.
struct BatchDecision {
  size_t count = 0;
  int64_t wait_until_ns = kNeverNs;
  bool operator==(const BatchDecision&) const = default;
};

// What to do when an instance can take an execution. `waiting` is the queue from its front on, in the order
// in which requests leave it, not empty, and as far as LastOfInterest() asks for.
//  - The largest preferred size that the first requests add up to goes at once.
//  - What can no longer grow (it is full, or the next request does not fit in) goes at once.
//  - Anything else waits until its oldest request has waited for max_delay_ns.
BatchDecision DecideBatch(const BatchingPolicy& policy, std::span<const WaitingRequest> waiting,
                          int64_t now_ns);

// Whether the requests after the last of `waiting` make no difference to DecideBatch(). `rows` is the sum
// over `waiting`.
bool LastOfInterest(const BatchingPolicy& policy, const WaitingRequest& last, int64_t rows);

// Whether two requests may be in one batch: the shapes beyond the batch dimension of the inputs that both
// have are equal, save those of inputs with allow_ragged_batch. The backend gets requests apart, so that one
// may lack an optional input which the other has.
bool CanShareBatch(const ServableInfo& info, const InferenceRequest& a, const InferenceRequest& b);

// How many executions an instance may have inside, the running one counted, when no instance is idle. 1 means
// that nothing is given ahead.
//
// An instance that learns of its next execution only after it has ended one stands still for a round trip
// between threads
// (~40 us), which a model that runs for 20 us would feel. But what is given ahead can no longer be cancelled,
// batched or moved to an instance that becomes idle, so that only as much is given as will have begun within
// 200 us.
//   execute_ns    the usual time of an execution; 0 when not known yet
//   running_ns    how long the present execution has run
//   batches       whether requests that wait in the queue would be run together: then one ahead is enough,
//   and the others
//                 gain by waiting
int PipelineDepth(int64_t execute_ns, int64_t running_ns, bool batches);

// The running mean of the times of executions that PipelineDepth() is given; a single long one does not move
// it far.
int64_t UpdateExecuteTime(int64_t mean_ns, int64_t sample_ns);

}  // namespace braid
