#include "serving/request.h"

#include "base/check.h"
#include "base/clock.h"
#include "serving/servable.h"

namespace braid {

InferenceRequest::InferenceRequest() = default;

InferenceRequest::~InferenceRequest() = default;

void InferenceRequest::Respond(std::optional<InferenceResponse> response, bool final) {
  BRAID_CHECK(sink != nullptr);
  ResponseSink* to = sink;
  if (final) {
    sink = nullptr;
    if (trace != nullptr) trace->Record(TraceActivity::kRequestEnd, SteadyNowNs());
    if (api && servable) {
      Servable& counted = servable->get();
      counted.api_counters().Count(*api, !response || response->status.ok());
      counted.statistics().RecordApiRequest(api->interface, SteadyNowNs() - start_ns);
    }
    // The handle goes before the client can hear the end, so that a client which then unloads never waits for
    // us.
    servable.reset();
  }
  to->Respond(std::move(response), final);
}

void InferenceRequest::Fail(Status status) {
  InferenceResponse response;
  response.status = std::move(status);
  if (servable) {
    response.model_name = servable->get().info().name;
    response.model_version = servable->get().info().version;
  }
  Respond(std::move(response), true);
}

void InferenceRequest::Refuse(Status status) {
  InferenceResponse response;
  response.status = std::move(status);
  Respond(std::move(response), true);
}

}  // namespace braid
