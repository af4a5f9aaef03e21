#include "protocols/inference/unary_inference.h"

#include "base/clock.h"
#include "base/guard.h"

namespace braid {

void StartTrace(Tracer* tracer, InferenceRequest& request, const TraceOrigin& origin) {
  if (tracer == nullptr || !tracer->enabled()) return;
  const ServableInfo& info = request.servable->get().info();
  request.trace = tracer->Start(info.name, info.version, request.id, origin);
  if (request.trace == nullptr) return;
  request.trace->Record(TraceActivity::kReceiveEnd, request.start_ns);
  request.trace->Record(TraceActivity::kRequestStart, request.start_ns);
}

int64_t ReceivedNs(const Tracer* tracer) {
  return tracer != nullptr && tracer->enabled() ? SteadyNowNs() : 0;
}

void CountRefusal(InferenceRequest& request) {
  if (request.api && request.servable) request.servable->get().api_counters().CountRefused(*request.api);
}

void UnaryInference::Prepare(InferenceRequest& request, Tracer* tracer, const TraceOrigin& origin) {
  cancellation_ = std::make_shared<Cancellation>();
  request.cancellation = cancellation_;
  if (origin.received_ns == 0) return;
  StartTrace(tracer, request, origin);
  trace_ = request.trace;
}

void BeginRequest(std::unique_ptr<InferenceRequest> request, ResponseSink& sink) {
  Servable& servable = request->servable->get();
  request->sink = &sink;
  if (Status admitted = servable.Admit(*request); !admitted.ok()) {
    request->Refuse(std::move(admitted));
    return;
  }
  servable.Begin(std::move(request));
}

void UnaryInference::Respond(std::optional<InferenceResponse> response, bool final) {
  if (answered_) {
    if (final) Ended();
    return;
  }
  answered_ = true;
  if (!response) {
    response.emplace();
    response->status =
        Guarded([] { return InternalError("the model ended the request without a response"); });
  }
  Answer(std::move(*response), final);
}

void UnaryInference::Reset() {
  cancellation_.reset();
  trace_.reset();
  answered_ = false;
}

}  // namespace braid
