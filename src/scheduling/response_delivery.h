// ResponseDelivery: the last part of a response's way through a scheduler. It names the model, leaves out
// what was not asked for, and records the numbers before the client can see the response.
#pragma once

#include <optional>
#include <vector>

#include "scheduling/request_front.h"
#include "scheduling/timer_service.h"
#include "serving/request.h"
#include "serving/servable.h"
#include "serving/statistics.h"

namespace braid {

class ResponseDelivery {
 public:
  // All outlive the delivery. `front` may be null.
  ResponseDelivery(const ServableInfo& info, ModelStatistics& statistics, const Timers& timers,
                   RequestFront* front = nullptr)
      : info_(info), statistics_(statistics), timers_(timers), front_(front) {}

  // Passes a response of the model on to the request's sink; see ResponseSink::Respond(). Any thread.
  void Respond(InferenceRequest& request, std::optional<InferenceResponse> response, bool final,
               const ExecutionTimes& times) const;
  // Ends a request that did not run. Any thread.
  void Fail(InferenceRequest& request, FailureReason reason, Status status) const;
  // Turns a request away that was not accepted; see InferenceRequest::Refuse(). Any thread.
  void Refuse(InferenceRequest& request, FailureReason reason, Status status) const;

  // Leaves out the outputs that the request does not want, and gives the others the shapes that clients see.
  void Prune(const InferenceRequest& request, std::vector<Tensor>& outputs) const;

 private:
  void Count(InferenceRequest& request, const std::optional<InferenceResponse>& response,
             const ExecutionTimes& times) const;
  RequestFront::Followers TellFront(InferenceRequest& request, RequestFront::Outcome outcome) const;
  RequestFront::Followers TellFront(InferenceRequest& request, FailureReason reason) const;

  const ServableInfo& info_;
  ModelStatistics& statistics_;
  const Timers& timers_;
  RequestFront* const front_;
};

}  // namespace braid
