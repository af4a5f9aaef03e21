#include "scheduling/trace_points.h"

namespace braid {
namespace {

void RecordInputs(const InferenceRequest& request, TraceTensorKind kind, int64_t ns) {
  if (!request.trace->wants_tensors()) return;
  for (const Tensor& input : request.inputs) request.trace->RecordTensor(kind, input, ns);
}

}  // namespace

void TraceQueued(const InferenceRequest& request) {
  if (request.trace == nullptr) return;
  request.trace->Record(TraceActivity::kQueueStart, request.queue_start_ns);
  RecordInputs(request, TraceTensorKind::kQueueInput, request.queue_start_ns);
}

void TraceDispatched(const InferenceRequest& request, int64_t ns) {
  if (request.trace == nullptr) return;
  request.trace->Record(TraceActivity::kComputeStart, ns);
  RecordInputs(request, TraceTensorKind::kBackendInput, ns);
}

void TraceResponse(const InferenceRequest& request, const std::optional<InferenceResponse>& response,
                   bool final, const ExecutionTimes& times, int64_t now_ns) {
  if (request.trace == nullptr) return;
  RequestTrace& trace = *request.trace;
  if (response && trace.wants_tensors()) {
    for (const Tensor& output : response->outputs) {
      trace.RecordTensor(TraceTensorKind::kBackendOutput, output, now_ns);
    }
  }
  if (!final) return;
  trace.Record(TraceActivity::kComputeInputEnd, times.input_end_ns);
  trace.Record(TraceActivity::kComputeOutputStart, times.infer_end_ns);
  trace.Record(TraceActivity::kComputeEnd, times.output_end_ns);
}

}  // namespace braid
