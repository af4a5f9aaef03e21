#include "mediapipe_graph/unary_graph_call.h"

#include <algorithm>
#include <string>

#include "base/clock.h"
#include "base/guard.h"
#include "mediapipe_graph/call_circle.h"
#include "mediapipe_graph/graph_sequences.h"
#include "serving/faults.h"
#include "serving/servable.h"

namespace braid {
namespace {

GraphCall UnaryCallOf(const GraphHost& host, const InferenceRequest& request) {
  GraphCall call;
  call.graph = host.definition.name;
  call.id = request.id;
  call.priority = request.priority;
  call.chain = request.call_chain;
  call.trace = request.trace;
  call.sequences = std::make_shared<GraphSequences>(host.servables);
  return call;
}

ApiMethod MethodOf(const InferenceRequest& request) {
  return request.api ? request.api->method : ApiMethod::kModelInfer;
}

}  // namespace

void UnaryGraphCall::Start(std::shared_ptr<GraphHost> host, std::unique_ptr<InferenceRequest> request) {
  request->queue_start_ns = SteadyNowNs();
  auto call = std::make_shared<UnaryGraphCall>(host, UnaryCallOf(*host, *request), std::move(request));
  InferenceRequest& entered = *call->request_;
  auto side_packets = ClientSidePackets(host->definition, entered.parameters,
                                        !entered.parameters.empty() && host->servables->has_sequences());
  Status status = side_packets.ok() ? call->ReadInputs() : side_packets.status();
  // The whole run belongs to this request.
  if (status.ok()) status = call->call().sequences->Add(graph::Timestamp::PreStream(), entered);
  if (status.ok()) {
    status =
        CheckCallCircle(entered.call_chain.get(), host->definition.name, host->definition.queue_size > 0);
  }
  if (!status.ok()) {
    entered.Refuse(std::move(status));
    return;
  }
  call->WatchClient();
  call->Begin(std::move(*side_packets), std::move(entered.parameters));
}

UnaryGraphCall::UnaryGraphCall(std::shared_ptr<GraphHost> host, GraphCall call,
                               std::unique_ptr<InferenceRequest> request)
    : GraphRun(std::move(host), std::move(call), request->servable->get(), MethodOf(*request)),
      request_(std::move(request)),
      outputs_(this->host().definition.outputs.size()),
      missing_(outputs_.size()) {}

Status UnaryGraphCall::ReadInputs() {
  const GraphDefinition& graph = host().definition;
  BRAID_ASSIGN_OR_RETURN(const auto manual, ManualTimestamp(request_->parameters));
  if (manual) timestamp_ = *manual;
  if (graph.passes_messages()) {
    BRAID_ASSIGN_OR_RETURN(graph::Packet packet, MessagePacket(*request_, timestamp_));
    inputs_.emplace_back(0, std::move(packet));
    return OkStatus();
  }
  std::vector<bool> given(graph.inputs.size());
  for (Tensor& tensor : request_->inputs) {
    int input = -1;
    const std::string name = tensor.name;
    BRAID_ASSIGN_OR_RETURN(graph::Packet packet, InputPacket(graph, std::move(tensor), timestamp_, input));
    if (given[static_cast<size_t>(input)]) {
      return FaultError(Fault::kInvalidUnexpectedInput, std::string(name).append(" is given more than once"));
    }
    given[static_cast<size_t>(input)] = true;
    inputs_.emplace_back(input, std::move(packet));
  }
  request_->inputs.clear();
  if (inputs_.size() < graph.inputs.size()) {
    return FaultError(Fault::kInvalidNoOfInputs, "Not all input packets created");
  }
  return OkStatus();
}

void UnaryGraphCall::WatchClient() {
  // The listener is called with the lock of the cancellation, and timers must not run nodes: both leave the
  // stop to the executor. They keep no run alive, so they need not be withdrawn.
  const auto stop = [weak = weak_from_this(), run_on = host().executor](Status why) {
    run_on([weak, why = std::move(why)] {
      if (const auto self = weak.lock()) self->Stop(why);
    });
  };
  if (request_->cancellation) {
    request_->cancellation->SetListener([stop] { stop(CancelledError("the request was cancelled")); });
  }
  if (request_->timeout_us == 0) return;
  constexpr uint64_t kMostUs = uint64_t{1} << 50;
  const int64_t timeout_ns = static_cast<int64_t>(std::min(request_->timeout_us, kMostUs)) * 1000;
  timer_ = host().timers.At(request_->start_ns + timeout_ns,
                            [stop] { stop(UnavailableError("Request timeout expired")); });
}

void UnaryGraphCall::OnBegun(graph::Run& run) {
  std::vector<std::pair<int, graph::Packet>> inputs = std::move(inputs_);
  for (auto& [input, packet] : inputs) {
    const Status status = run.AddPacket(input, std::move(packet));
    // If the run has ended meanwhile, its end has the reason.
    if (!status.ok() && status.code() != StatusCode::kFailedPrecondition) {
      Stop(FaultError(Fault::kGraphAddPacketError, status.message()));
      return;
    }
  }
  run.CloseAllInputs();
}

void UnaryGraphCall::OnPacket(int output, graph::Packet packet) {
  graph::Packet& first = outputs_[static_cast<size_t>(output)];
  if (first.empty()) {
    first = std::move(packet);
    --missing_;
    return;
  }
  // The response is complete; a generator's further items are not needed and may have no end.
  if (missing_ > 0 || answered_) return;
  answered_ = true;
  Stop(CancelledError("the response is complete"));
}

void UnaryGraphCall::OnOver(Status status) {
  if (timer_) host().timers.Withdraw(timer_);
  if (answered_) status = OkStatus();
  InferenceResponse response;
  if (status.ok()) status = Guarded([&] { return MakeResponse(response); });
  if (!status.ok()) {
    Fail(std::move(status));
  } else {
    Succeed(std::move(response));
  }
}

Status UnaryGraphCall::MakeResponse(InferenceResponse& response) const {
  const GraphDefinition& graph = host().definition;
  if (missing_ > 0) {
    return FaultError(Fault::kGraphExecutionError, "Unknown error during mediapipe execution");
  }
  response.outputs.reserve(outputs_.size());
  for (size_t i = 0; i < outputs_.size(); ++i) {
    BRAID_RETURN_IF_ERROR(AddOutput(graph, static_cast<int>(i), outputs_[i], response));
  }
  response.parameters.emplace_back(kTimestampParameter, outputs_[0].timestamp().value());
  TellSequence(call().sequences->Find(outputs_[0].timestamp()).get(), response);
  response.model_name = graph.name;
  response.model_version = 1;
  return OkStatus();
}

void UnaryGraphCall::Succeed(InferenceResponse response) {
  const int64_t now_ns = SteadyNowNs();
  const ExecutionTimes times{begun_ns(), begun_ns(), now_ns, now_ns};
  servable().statistics().RecordExecution(1, times);
  servable().statistics().RecordSuccess(1, request_->start_ns, request_->queue_start_ns, times);
  host().structure.Responded();
  request_->Respond(std::move(response), true);
}

void UnaryGraphCall::Fail(Status status) {
  const RetryingAllocation retrying;
  call().sequences->TakeBack();
  const bool cancelled = status.code() == StatusCode::kCancelled && request_->cancelled();
  const FailureReason reason = cancelled         ? FailureReason::kCanceled
                               : begun_ns() == 0 ? FailureReason::kOther
                                                 : FailureReason::kBackend;
  servable().statistics().RecordFailure(reason, request_->start_ns, SteadyNowNs());
  request_->Fail(std::move(status));
}

}  // namespace braid
