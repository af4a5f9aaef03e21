#include "pipeline/session_client.h"

#include <string>
#include <utility>
#include <variant>

#include "base/clock.h"
#include "base/guard.h"
#include "pipeline/dag_servable.h"
#include "serving/reshape.h"

namespace braid {

SessionClient::SessionClient(DagServable& servable, std::shared_ptr<const DagPlan> plan,
                             std::shared_ptr<SequenceQueue> queue, std::unique_ptr<InferenceRequest> request,
                             SequenceQueue::Entry* entry, std::shared_ptr<Compensation> compensation)
    : servable_(servable),
      plan_(std::move(plan)),
      queue_(std::move(queue)),
      begin_ns_(entry != nullptr ? SteadyNowNs() : request->queue_start_ns),
      request_(std::move(request)),
      entry_(entry),
      compensation_(std::move(compensation)) {
  plan_->structure->RequestBegan();
}

void SessionClient::Respond(std::optional<std::vector<Tensor>> outputs, bool final) {
  const RetryingAllocation retrying;
  std::optional<InferenceResponse> response;
  if (outputs) response = MakeResponse(std::move(*outputs));
  // A single response is delivered once the session can no longer fail.
  if (!servable_.info().decoupled) {
    if (response) held_ = std::move(response);
    if (!final) return;
    response = std::move(held_);
    Status finished =
        response && plan_->finish_outputs != nullptr ? plan_->finish_outputs(response->outputs) : OkStatus();
    if (!finished.ok()) {
      Fail(std::move(finished), Dag::kNone);
      return;
    }
    if (response) servable_.Keep(*request_, *response);
  }
  if (final) Leave();
  if (servable_.info().decoupled) Count(response ? ResponseKind::kSuccess : ResponseKind::kEmpty);
  if (final) {
    const int64_t now_ns = SteadyNowNs();
    const ExecutionTimes times{begin_ns_, begin_ns_, now_ns, now_ns};
    servable_.statistics().RecordExecution(request_->batch_size, times);
    servable_.statistics().RecordSuccess(request_->batch_size, request_->start_ns, request_->queue_start_ns,
                                         times);
    plan_->structure->RequestEnded(false, now_ns - begin_ns_);
  }
  request_->Respond(std::move(response), final);
  if (final && entry_ != nullptr) queue_->Leave(*entry_);
}

void SessionClient::Fail(Status status, uint32_t node) {
  const RetryingAllocation retrying;
  Leave();
  const bool cancelled = status.code() == StatusCode::kCancelled && request_->cancelled();
  if (servable_.info().decoupled) Count(ResponseKind::kFail);
  const int64_t now_ns = SteadyNowNs();
  servable_.statistics().RecordFailure(cancelled ? FailureReason::kCanceled : FailureReason::kBackend,
                                       request_->start_ns, now_ns);
  plan_->structure->RequestEnded(!cancelled, now_ns - begin_ns_);
  status = plan_->fault(std::move(status), node);
  if (compensation_ == nullptr) {
    request_->Fail(std::move(status));
    if (entry_ != nullptr) queue_->Leave(*entry_);
    return;
  }
  if (cancelled) compensation_->ClientGone();
  std::shared_ptr<InferenceRequest> request = std::move(request_);  // std::function copies its captures
  compensation_->Fail(
      [request = std::move(request), status = std::move(status), queue = queue_, entry = entry_] {
        request->Fail(status);
        if (entry != nullptr) queue->Leave(*entry);
      });
}

void SessionClient::Leave() {
  if (request_->cancellation) request_->cancellation->ClearListener();
  servable_.Remove(request_.get());
}

InferenceResponse SessionClient::MakeResponse(std::vector<Tensor> outputs) const {
  InferenceResponse response;
  ChangeBatches(plan_->batch_changes, outputs);
  for (Tensor& output : outputs) {
    const TensorSpec* spec = servable_.info().FindOutput(output.name);
    if (spec != nullptr && spec->model_shape) Reshape(*spec->model_shape, spec->shape, output.shape);
  }
  response.outputs = std::move(outputs);
  if (servable_.info().stateful) {
    response.outputs.push_back(SequenceIdOutput(std::get<uint64_t>(request_->correlation_id)));
  }
  response.model_name = servable_.info().name;
  response.model_version = servable_.info().version;
  return response;
}

void SessionClient::Count(ResponseKind kind) {
  const int64_t now_ns = SteadyNowNs();
  if (responses_ == 0 && kind != ResponseKind::kEmpty) {
    servable_.statistics().RecordFirstResponse(now_ns - request_->start_ns);
  }
  const int64_t before_ns = responses_ == 0 ? begin_ns_ : last_response_ns_;
  servable_.statistics().RecordResponse(responses_++, kind, now_ns - before_ns);
  last_response_ns_ = now_ns;
}

}  // namespace braid
