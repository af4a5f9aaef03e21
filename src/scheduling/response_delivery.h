// ResponseDelivery: the last step of a response in a model. It adds the model's name, removes outputs that
// were not requested, and records statistics before the client can see the response.
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

// Removes the outputs that the request does not want, and gives the others the shapes that clients see.
void PruneOutputs(const ServableInfo& info, const InferenceRequest& request, std::vector<Tensor>& outputs);

class ResponseDelivery {
 public:
  // All arguments outlive the delivery.
  ResponseDelivery(ModelStatistics& statistics, const Timers& timers, Logger& log)
      : statistics_(statistics), timers_(timers), log_(log) {}

  // Turns a response of the model `info` into the response for the request's sink; see
  // ResponseSink::Respond(). Any thread.
  void Prepare(const ServableInfo& info, InferenceRequest& request,
               std::optional<InferenceResponse>& response, bool final, const ExecutionTimes& times) const;

 private:
  // Warns once if a response lacks an output, or has one of another type than the model declares.
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
