#include "scheduling/response_delivery.h"

#include <algorithm>
#include <string>

#include "scheduling/trace_points.h"
#include "serving/reshape.h"

namespace braid {

void PruneOutputs(const ServableInfo& info, const InferenceRequest& request, std::vector<Tensor>& outputs) {
  const auto unwanted = [&](const Tensor& output) {
    if (request.requested_outputs.empty()) return info.FindOutput(output.name) == nullptr;
    return std::find(request.requested_outputs.begin(), request.requested_outputs.end(), output.name) ==
           request.requested_outputs.end();
  };
  outputs.erase(std::remove_if(outputs.begin(), outputs.end(), unwanted), outputs.end());
  for (Tensor& output : outputs) {
    const TensorSpec* spec = info.FindOutput(output.name);
    if (spec != nullptr && spec->model_shape) Reshape(*spec->model_shape, spec->shape, output.shape);
  }
}

void ResponseDelivery::Prepare(const ServableInfo& info, InferenceRequest& request,
                               std::optional<InferenceResponse>& response, bool final,
                               const ExecutionTimes& times) const {
  SchedulerNotes& notes = request.scheduling;
  const bool cancelled = response && response->status.code() == StatusCode::kCancelled && request.cancelled();
  if (response) {
    response->model_name = info.name;
    response->model_version = info.version;
    if (response->status.ok()) {
      PruneOutputs(info, request, response->outputs);
      WarnOfOutputs(info, request, response->outputs);
    } else {
      notes.failed = true;
    }
  }
  if (info.decoupled) Count(request, response, times);
  // For a model that answers once, the client sees the end with the answer, even if the model reports later
  // that it was the last.
  if (!notes.counted && (final || !info.decoupled)) {
    notes.counted = true;
    if (notes.failed) {
      statistics_.RecordFailure(cancelled ? FailureReason::kCanceled : FailureReason::kBackend,
                                request.start_ns, timers_.NowNs());
    } else {
      statistics_.RecordSuccess(request.batch_size, request.start_ns, request.queue_start_ns, times);
    }
  }
  if (request.trace != nullptr) TraceResponse(request, response, final, times, timers_.NowNs());
}

void ResponseDelivery::WarnOfOutputs(const ServableInfo& info, const InferenceRequest& request,
                                     const std::vector<Tensor>& outputs) const {
  if (warned_.load(std::memory_order_relaxed)) return;
  const auto& wanted = request.requested_outputs;
  for (const TensorSpec& spec : info.outputs) {
    if (!wanted.empty() && std::ranges::find(wanted, spec.name) == wanted.end()) continue;
    const auto given = std::ranges::find(outputs, spec.name, &Tensor::name);
    if (given != outputs.end() && given->type == spec.type) continue;
    if (warned_.exchange(true)) return;
    const std::string what =
        given == outputs.end() ? "lacks output '" + spec.name + "'"
                               : "has output '" + spec.name + "' as " + std::string(ConfigName(given->type)) +
                                     " but the configuration says " + std::string(ConfigName(spec.type));
    BRAID_LOG_WARNING(log_, "a response of model '{}' {}; it is sent unchanged (logged once)", info.name,
                      what);
    return;
  }
}

void ResponseDelivery::Count(InferenceRequest& request, const std::optional<InferenceResponse>& response,
                             const ExecutionTimes& times) const {
  SchedulerNotes& notes = request.scheduling;
  const int64_t now_ns = timers_.NowNs();
  const int64_t before_ns = notes.responses == 0 ? times.compute_start_ns : notes.last_response_ns;
  const ResponseKind kind = !response               ? ResponseKind::kEmpty
                            : response->status.ok() ? ResponseKind::kSuccess
                                                    : ResponseKind::kFail;
  if (notes.responses == 0 && response) statistics_.RecordFirstResponse(now_ns - request.start_ns);
  statistics_.RecordResponse(notes.responses++, kind, now_ns - before_ns);
  notes.last_response_ns = now_ns;
}

}  // namespace braid
