// SessionClient: the client's side of a session: the request, and the responses with their texts and
// statistics. After the end it takes the request's effects back if necessary, and lets the sequence's next
// request run.
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

// Called by the thread that performs the session's actions, one call at a time.
class SessionClient {
 public:
  // The servable lives as long as the request is inside its gate. `entry` is the request's entry in the queue
  // of its sequence. `entry` and `compensation` may be null.
  SessionClient(DagServable& servable, std::shared_ptr<const DagPlan> plan,
                std::shared_ptr<SequenceQueue> queue, std::unique_ptr<InferenceRequest> request,
                SequenceQueue::Entry* entry, std::shared_ptr<Compensation> compensation);

  const InferenceRequest& request() const { return *request_; }

  // Delivers one response, or nothing when the session only ends. `final`: the session has ended.
  void Respond(std::optional<std::vector<Tensor>> outputs, bool final);
  // Ends the request with the error of node `node`, or of the session itself (Dag::kNone). The steps' effects
  // on the sequence are taken back before the client is notified.
  void Fail(Status status, uint32_t node);

 private:
  // Detaches the session from the request: neither a cancellation nor the servable calls it any more.
  void Leave();
  InferenceResponse MakeResponse(std::vector<Tensor> outputs) const;
  void Count(ResponseKind kind);

  DagServable& servable_;
  const std::shared_ptr<const DagPlan> plan_;   // shared with the servable, which may be destroyed first
  const std::shared_ptr<SequenceQueue> queue_;  // shared with the servable, which may be destroyed first
  const int64_t begin_ns_;
  std::unique_ptr<InferenceRequest> request_;
  SequenceQueue::Entry* const entry_;
  const std::shared_ptr<Compensation> compensation_;  // shared with the session
  std::optional<InferenceResponse> held_;
  uint32_t responses_ = 0;
  int64_t last_response_ns_ = 0;
};

}  // namespace braid
