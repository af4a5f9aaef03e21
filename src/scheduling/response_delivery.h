// ResponseDelivery: the last part of a response's way through a model. It names the model, leaves out what
// was not asked for, and records the numbers before the client can see the response.
#pragma once

#include <atomic>
#include <optional>
#include <vector>

#include "base/log.h"
#include "scheduling/timer_service.h"
#include "serving/request.h"
#include "serving/servable.h"
#include "serving/statistics.h"

namespace braid {

// Leaves out the outputs that the request does not want, and gives the others the shapes that clients see.
void PruneOutputs(const ServableInfo& info, const InferenceRequest& request, std::vector<Tensor>& outputs);

class ResponseDelivery {
 public:
  // All outlive the delivery.
  ResponseDelivery(ModelStatistics& statistics, const Timers& timers, Logger& log)
      : statistics_(statistics), timers_(timers), log_(log) {}

  // Makes a response of the model `info` what the request's sink gets; see ResponseSink::Respond(). Any
  // thread.
  void Prepare(const ServableInfo& info, InferenceRequest& request,
               std::optional<InferenceResponse>& response, bool final, const ExecutionTimes& times) const;

 private:
  // Says once what a model leaves out of a response, or gives as another type than it has declared.
  void WarnOfOutputs(const ServableInfo& info, const InferenceRequest& request,
                     const std::vector<Tensor>& outputs) const;
  void Count(InferenceRequest& request, const std::optional<InferenceResponse>& response,
             const ExecutionTimes& times) const;

  ModelStatistics& statistics_;
  const Timers& timers_;
  Logger& log_;
  mutable std::atomic<bool> warned_{false};
};

}  // namespace braid
