// The scheduler's trace records of a request. They cost untraced requests only the check of a pointer.
#pragma once

#include <optional>

#include "serving/request.h"
#include "serving/statistics.h"

namespace braid {

// The request has entered the queue, at request.queue_start_ns.
void TraceQueued(const InferenceRequest& request);
// The request is about to be handed to an instance; it left the queue at `ns`.
void TraceDispatched(const InferenceRequest& request, int64_t ns);
// A response is about to go to the request's sink.
void TraceResponse(const InferenceRequest& request, const std::optional<InferenceResponse>& response,
                   bool final, const ExecutionTimes& times, int64_t now_ns);

}  // namespace braid
