// SessionClient: the request for which a session runs, and the responses to it: their texts, the statistics,
// and what follows the end (the sequence is taken back, the next request of the sequence runs).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "base/status.h"
#include "pipeline/dag_plan.h"
#include "sequences/sequence_queue.h"
#include "serving/compensation.h"
#include "serving/request.h"
#include "serving/servable.h"
#include "tensor/tensor.h"

namespace braid {

class DagServable;

// Called on the thread that goes on with the session, one call at a time.
class SessionClient {
 public:
  // The servable lives as long as the request is inside its gate. `entry` is that of the request in the queue
  // of its sequence. It and `compensation` may be null.
  SessionClient(DagServable& servable, std::shared_ptr<const DagPlan> plan,
                std::shared_ptr<SequenceQueue> queue, std::unique_ptr<InferenceRequest> request,
                SequenceQueue::Entry* entry, std::shared_ptr<Compensation> compensation);

  const InferenceRequest& request() const { return *request_; }

  // One response; nothing when the session only ends. With `final` it has ended.
  void Respond(std::optional<std::vector<Tensor>> outputs, bool final);
  // The session has ended with an error: of the node at this index, or its own (Dag::kNone). What steps have
  // done for the sequence is taken back before the client hears of it.
  void Fail(Status status, uint32_t node);

 private:
  // The session is not to be called for this request any more.
  void Leave();
  InferenceResponse MakeResponse(std::vector<Tensor> outputs) const;
  void Count(ResponseKind kind);

  DagServable& servable_;
  const std::shared_ptr<const DagPlan> plan_;   // shared with the servable, which may go before this
  const std::shared_ptr<SequenceQueue> queue_;  // shared with the servable, which may go before this
  const int64_t begin_ns_;
  std::unique_ptr<InferenceRequest> request_;
  SequenceQueue::Entry* const entry_;
  const std::shared_ptr<Compensation> compensation_;  // shared with the session
  std::optional<InferenceResponse> held_;
  uint32_t responses_ = 0;
  int64_t last_response_ns_ = 0;
};

}  // namespace braid
