#include "serving/request.h"

#include "base/check.h"
#include "base/clock.h"
#include "base/guard.h"
#include "serving/servable.h"

namespace braid {
namespace {

// Counts a request that ended with `response`.
void CountAnswer(Servable& servable, const ApiCall& call, const std::optional<InferenceResponse>& response,
                 int64_t duration_ns) {
  const bool good = !response || response->status.ok();
  servable.api_counters().Count(call, good);
  servable.statistics().RecordApiRequest(call.interface, duration_ns);
  if (servable.info().kind != ServableKind::kGraph) return;
  // A refusal names no model.
  servable.api_counters().CountRequest(call, good || !response->model_name.empty());
  if (good) servable.api_counters().CountResponse(call);
  servable.statistics().RecordGraphLatency(call.method, duration_ns);
}

}  // namespace

InferenceRequest::InferenceRequest() = default;

// Only an exception drops a request that has not ended.
InferenceRequest::~InferenceRequest() {
  if (sink != nullptr && cancellation != nullptr) cancellation->ClearListener();
  if (sink != nullptr) (void)Guarded([this] { Fail(UnwindingStatus()); });
  // Building the error's text may have failed for lack of memory; this error allocates nothing.
  if (sink != nullptr) (void)Guarded([this] { Refuse(OutOfMemory()); });
}

void InferenceRequest::Respond(std::optional<InferenceResponse> response, bool final) {
  BRAID_CHECK(sink != nullptr);
  ResponseSink* to = sink;
  if (final) {
    sink = nullptr;
    GuardedOrReport("the end of a request", [&] {
      if (trace != nullptr) trace->Record(TraceActivity::kRequestEnd, SteadyNowNs());
      if (api && servable) CountAnswer(servable->get(), *api, response, SteadyNowNs() - start_ns);
    });
    // Released before the client can see the end of the request. Otherwise a client that then unloads the
    // model would wait for this request.
    input_share.GiveBack();
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
