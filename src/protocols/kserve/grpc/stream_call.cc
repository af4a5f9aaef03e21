#include "protocols/kserve/grpc/stream_call.h"

#include <algorithm>
#include <utility>

#include "base/clock.h"
#include "base/guard.h"
#include "protocols/inference/cuda_region.h"
#include "protocols/inference/dialect.h"
#include "protocols/inference/request_headers.h"
#include "protocols/kserve/grpc/graph_stream.h"
#include "protocols/kserve/grpc/service.h"

namespace braid {
namespace {

// Returns whether the client wants the first error to end the stream ("triton_grpc_error: true").
bool WantsGrpcErrors(const Http2Head& head) {
  return head.Any("triton_grpc_error", [](std::string_view value) { return value == "true"; });
}

}  // namespace

// One request of the stream. Deletes itself with the final response.
class GrpcStreamCall::Sink final : public ResponseSink {
 public:
  explicit Sink(std::shared_ptr<GrpcStreamCall> stream) : stream_(std::move(stream)) {}

  void Respond(std::optional<InferenceResponse> response, bool final) override;

  AnswerOptions answer;
  std::shared_ptr<Cancellation> cancellation = std::make_shared<Cancellation>();
  bool decoupled = false;
  // Copied from the model, for empty final responses.
  std::string model_name;
  int64_t model_version = 0;
  uint64_t slot = 0;
  bool answered = false;  // no further message is sent; used by the request's owner, like Respond()

  // Guarded by the stream's mutex.
  bool sent_all = false;
  Sink* previous = nullptr;
  Sink* next = nullptr;
  bool linked = false;

 private:
  void RespondOpen(std::optional<InferenceResponse> response, bool final);

  // If a response cannot be encoded, encodes the error instead.
  Outgoing Encode(InferenceResponse& response, bool final) {
    Outgoing outgoing;
    const Status fault = Guarded([&] { outgoing = TryEncode(response, final); });
    if (fault.ok()) return outgoing;
    response.outputs.clear();
    response.status = fault;
    return TryEncode(response, final);
  }

  Outgoing TryEncode(InferenceResponse& response, bool final) {
    if (response.status.ok()) response.status = answer.outputs.Apply(response.outputs);
    if (response.status.ok()) {
      return {EncodeStreamResponse(answer.request_id, response, final, &answer.outputs), OkStatus()};
    }
    const InferenceResponse* accepted = response.model_name.empty() ? nullptr : &response;
    return {EncodeStreamError(answer.request_id, response.status.message(), accepted, final),
            response.status};
  }

  const std::shared_ptr<GrpcStreamCall> stream_;  // shared with the connection and other requests
};

void GrpcStreamCall::Sink::RespondOpen(std::optional<InferenceResponse> response, bool final) {
  // A model with one response is finished after it; further ones are dropped.
  const bool answers = final || !decoupled;
  if (!response && decoupled && !answer.empty_final_response) {
    answered = true;
    stream_->EndSilently(*this);
    return;
  }
  if (!response) {
    response.emplace();
    response->model_name = model_name;
    response->model_version = model_version;
    if (!decoupled) response->status = InternalError("the model ended the request without a response");
  }
  answered = answers;
  if (stream_->open()) stream_->SendAnswer(*this, Encode(*response, answers), answers);
}

void GrpcStreamCall::Sink::Respond(std::optional<InferenceResponse> response, bool final) {
  if (!answered) {
    const Status fault = Guarded([&] { RespondOpen(std::move(response), final); });
    if (!fault.ok()) stream_->EndWithFault(fault);
  }
  if (!final) return;
  stream_->Forget(*this);
  delete this;
}

GrpcStreamCall::GrpcStreamCall(Setup setup, KserveThread& thread)
    : GrpcCall(std::move(setup)), kserve_(thread), grpc_errors_(WantsGrpcErrors(head())) {
  EnableCompression();
}

GrpcStreamCall::~GrpcStreamCall() = default;

Result<std::shared_ptr<GrpcCall>> GrpcStreamCall::Create(Setup setup, KserveThread& thread) {
  BRAID_RETURN_IF_ERROR(thread.thread.state().CheckServing());
  auto call = std::make_shared<GrpcStreamCall>(std::move(setup), thread);
  BRAID_RETURN_IF_ERROR(thread.context().grpc_headers.Append(call->head(), call->forwarded_));
  return std::shared_ptr<GrpcCall>(std::move(call));
}

void GrpcStreamCall::OnDrain() {
  {
    MutexLock lock(mutex_);
    draining_ = true;
  }
  Advance();
}

void GrpcStreamCall::OnMessage(GrpcMessage message) {
  GrpcGraphStream* graph = nullptr;
  bool handle = false;
  {
    MutexLock lock(mutex_);
    graph = graph_.get();
    reading_ = false;
    handling_ = handle = !ended_ && (graph == nullptr || !draining_);
  }
  if (handle) {
    Handle(std::move(message), graph, 0);
  } else {
    Advance();
  }
}

void GrpcStreamCall::Handle(GrpcMessage message, GrpcGraphStream* graph, int64_t since_ns) {
  bool handled = true;
  // An exception is thrown only before the request begins.
  const Status fault = Guarded([&] { handled = HandleMessage(message, graph, since_ns); });
  if (!handled) return;
  const bool told = fault.ok() || (graph == nullptr && Guarded([&] { Refuse(fault, ""); }).ok());
  if (!told) EndWith(fault);
  const RetryingAllocation retrying;
  Next next;
  {
    MutexLock lock(mutex_);
    handling_ = false;
    AdvanceLocked(next);
  }
  Run(next);
}

void GrpcStreamCall::OnHalfClose() {
  {
    MutexLock lock(mutex_);
    half_closed_ = true;
    if (first_message_ && needs_a_servable()) EndLocked(FaultError(Fault::kGraphUninitializedStreamClosure));
  }
  Advance();
}

void GrpcStreamCall::HandleAfterLoad(GrpcMessage message, int64_t since_ns) {
  if (since_ns == 0) since_ns = SteadyNowNs();
  // std::function must be copyable, so the message travels in a shared pointer.
  auto kept = std::make_shared<GrpcMessage>(std::move(message));
  LoadOnDemand(kserve_.parsed.model_name, since_ns, [this, kept, since_ns](const Status& loaded) {
    bool handle = false;
    {
      MutexLock lock(mutex_);
      handle = !ended_ && loaded.ok();
    }
    if (handle) {
      Handle(std::move(*kept), nullptr, since_ns);
      return;
    }
    std::string id;
    if (ParseInferRequest(kept->segments(), kserve_.parsed).ok()) id = kserve_.parsed.id;
    if (!loaded.ok()) Refuse(loaded, id);
    {
      MutexLock lock(mutex_);
      handling_ = false;
    }
    Advance();
  });
}

bool GrpcStreamCall::HandleMessage(GrpcMessage& message, GrpcGraphStream* graph, int64_t since_ns) {
  Tracer* const tracer = kserve_.context().tracer;
  const int64_t received_ns = ReceivedNs(tracer);
  const WireSegments segments = message.segments();
  if (graph != nullptr) {
    graph->Handle(segments);
    return true;
  }
  auto request = std::make_unique<InferenceRequest>();
  auto sink = std::make_unique<Sink>(self());
  Status status = FindServable(segments, *request, *sink);
  if (status.fault() == Fault::kLoadsOnDemand) {
    HandleAfterLoad(std::move(message), since_ns);
    return false;
  }
  const bool first = std::exchange(first_message_, false);
  const bool found = status.ok();
  if (first && found && request->servable->get().takes_streams()) {
    Converse(segments, std::move(request->servable));
    return true;
  }
  if (found) status = thread().state().limits->budget.Admit();
  if (status.ok()) status = Build(segments, *request, *sink);
  if (status.ok()) KeepOrder(*request);
  message = {};
  if (first && !found && needs_a_servable()) {
    EndWith(status);
    return true;
  }
  if (!status.ok()) {
    CountRefusal(*request);
    Refuse(status, sink->answer.request_id);
    return true;
  }
  if (received_ns != 0) {
    StartTrace(tracer, *request, TraceOriginOf(head(), received_ns));
  }
  {
    MutexLock lock(mutex_);
    if (!sink->decoupled) {
      sink->slot = first_slot_ + slots_.size();
      slots_.emplace_back();
    }
    ++open_requests_;
    sink->next = sinks_;
    if (sinks_ != nullptr) sinks_->previous = sink.get();
    sinks_ = sink.get();
    sink->linked = true;
  }
  request->sink = sink.release();
  Servable& servable = request->servable->get();
  if (Status admitted = servable.Admit(*request); !admitted.ok()) {
    request->Refuse(std::move(admitted));
    return true;
  }
  servable.Begin(std::move(request));
  return true;
}

// A later request must not overtake one that first waits for a copy from a device.
void GrpcStreamCall::KeepOrder(InferenceRequest& request) {
  if (request.preparation != nullptr) {
    preparations_ = true;
  } else if (preparations_) {
    DevicePreparation::Of(request, kserve_.context().client_memory->copies());
  }
}

bool GrpcStreamCall::needs_a_servable() const {
  return RulesOf(kserve_.context().catalog).streams_need_a_servable;
}

void GrpcStreamCall::EndWith(const Status& status) {
  MutexLock lock(mutex_);
  EndLocked(status);
}

void GrpcStreamCall::EndWithFault(const Status& status) noexcept {
  const RetryingAllocation retrying;
  GuardedOrReport("gRPC stream", [&] {
    EndWith(status);
    Advance();
  });
}

void GrpcStreamCall::Converse(WireSegments segments, std::unique_ptr<ServableHandle> servable) {
  auto graph = std::make_unique<GrpcGraphStream>(*this);
  GrpcGraphStream& opening = *graph;
  {
    MutexLock lock(mutex_);
    graph_ = std::move(graph);
  }
  const Status fault = Guarded([&] { return opening.Open(segments, std::move(servable)); });
  if (fault.ok()) return;
  opening.Detach();
  EndWith(fault);
}

Status GrpcStreamCall::FindServable(WireSegments segments, InferenceRequest& request, Sink& sink) {
  const Status parsed = ParseInferRequest(segments, kserve_.parsed);
  sink.answer.request_id = kserve_.parsed.id;
  BRAID_RETURN_IF_ERROR(parsed);
  BRAID_RETURN_IF_ERROR(kserve_.thread.state().CheckServing());
  return braid::FindServable(kserve_, authorization(), ApiMethod::kModelInferStream, request);
}

Status GrpcStreamCall::Build(WireSegments segments, InferenceRequest& request, Sink& sink) {
  Servable& servable = request.servable->get();
  BRAID_RETURN_IF_ERROR(BuildRequest(segments, servable, request, sink.answer));
  sink.decoupled = servable.info().decoupled;
  sink.model_name = servable.info().name;
  sink.model_version = servable.info().version;
  request.cancellation = sink.cancellation;
  return OkStatus();
}

Status GrpcStreamCall::BuildRequest(WireSegments segments, Servable& servable, InferenceRequest& request,
                                    AnswerOptions& answer) {
  BRAID_ASSIGN_OR_RETURN(const std::string_view sequence, SequenceHeader(servable.info(), head()));
  return BuildInferenceRequest(segments, kserve_.parsed, servable, {forwarded_, sequence},
                               {*kserve_.context().client_memory, authorization(), servable.info().name},
                               request, answer);
}

void GrpcStreamCall::Refuse(const Status& status, const std::string& id) {
  const RetryingAllocation retrying;
  Outgoing outgoing{EncodeStreamError(id, status.message(), nullptr, true), status};
  Next next;
  {
    MutexLock lock(mutex_);
    if (ended_) return;
    const uint64_t slot = first_slot_ + slots_.size();
    slots_.emplace_back();
    ++open_requests_;
    FillSlotLocked(slot, std::move(outgoing));
    AdvanceLocked(next);
  }
  Run(next);
}

void GrpcStreamCall::SendAnswer(Sink& sink, Outgoing outgoing, bool answers) {
  const RetryingAllocation retrying;
  Next next;
  {
    MutexLock lock(mutex_);
    sink.sent_all = sink.sent_all || answers;
    if (!ended_) {
      if (sink.decoupled) {
        if (answers) --open_requests_;
        if (!CutOffLocked(next)) PushLocked(std::move(outgoing));
      } else {
        FillSlotLocked(sink.slot, std::move(outgoing));
      }
    }
    AdvanceLocked(next);
  }
  Run(next);
}

void GrpcStreamCall::EndSilently(Sink& sink) {
  {
    MutexLock lock(mutex_);
    sink.sent_all = true;
    --open_requests_;
  }
  Advance();
}

void GrpcStreamCall::Forget(Sink& sink) {
  MutexLock lock(mutex_);
  if (!sink.linked) return;
  if (sink.previous != nullptr) {
    sink.previous->next = sink.next;
  } else {
    sinks_ = sink.next;
  }
  if (sink.next != nullptr) sink.next->previous = sink.previous;
  sink.linked = false;
}

void GrpcStreamCall::FillSlotLocked(uint64_t slot, Outgoing outgoing) {
  Slot& place = slots_[slot - first_slot_];
  place.ready = true;
  place.answer = std::move(outgoing);
  while (!slots_.empty() && slots_.front().ready) {
    Outgoing answer = std::move(slots_.front().answer);
    slots_.pop_front();
    ++first_slot_;
    --open_requests_;
    if (!ended_) PushLocked(std::move(answer));
  }
}

void GrpcStreamCall::PushLocked(Outgoing outgoing) {
  if (grpc_errors_ && !outgoing.end.ok()) {
    EndLocked(outgoing.end);
  } else {
    Push(std::move(outgoing.message));
  }
}

bool GrpcStreamCall::CutOffLocked(Next& next) {
  if (waiting().bytes <= kMaxWaitingBytes) return false;
  DropWaiting();
  next.cut_off = true;
  EndLocked(UnavailableError("the client does not read the responses of the stream"));
  return true;
}

void GrpcStreamCall::EndLocked(const Status& status) {
  const RetryingAllocation retrying;
  if (std::exchange(ended_, true)) return;
  PushEnd(status);
}

void GrpcStreamCall::CancelSinksLocked(Next& next) {
  // The client no longer receives answers to these requests. Each is cancelled once and leaves the list. A
  // request that has sent all its answers may go on, unless the client itself cancelled.
  while (sinks_ != nullptr) {
    Sink* sink = sinks_;
    if (cancelled_ || !sink->sent_all) next.cancel.push_back(sink->cancellation);
    sinks_ = sink->next;
    sink->previous = nullptr;
    sink->next = nullptr;
    sink->linked = false;
  }
}

void GrpcStreamCall::AdvanceLocked(Next& next) {
  next.graph = graph_.get();
  const Waiting waits = waiting();
  bool wanted = false;
  if (graph_) {
    wanted = graph_->WantsMessageLocked(waits, next);
  } else {
    const bool answering = handling_ || open_requests_ > 0;
    if (!answering && half_closed_) EndLocked(OkStatus());
    if (!answering && draining_) EndLocked(UnavailableError("Server exiting"));
    const size_t open = open_requests_ + waits.messages;
    wanted = open < kMaxOpenRequests && waits.bytes < kPauseBytes;
    if (!wanted && open_requests_ < kMaxOpenRequests) {
      next.notify = true;
      next.most = {kMaxOpenRequests - open_requests_ - 1, kPauseBytes - 1};
    }
  }
  if (ended_) CancelSinksLocked(next);
  next.read = wanted && !handling_ && !reading_ && !half_closed_ && !ended_;
  reading_ = reading_ || next.read;
}

void GrpcStreamCall::Run(Next& next) {
  if (next.cut_off) {
    BRAID_LOG_WARNING(
        kserve_.context().log,
        "ModelStreamInfer stream ended: the client does not read, and {} MiB of responses are waiting",
        kMaxWaitingBytes >> 20);
  }
  Flush();
  if (next.read) RequestMessage();
  if (next.notify) NotifyWhenAtMost(next.most);
  for (const std::shared_ptr<Cancellation>& cancellation : next.cancel) cancellation->Cancel();
  if (next.graph != nullptr) next.graph->Tell();
}

void GrpcStreamCall::Advance() {
  const RetryingAllocation retrying;
  Next next;
  {
    MutexLock lock(mutex_);
    AdvanceLocked(next);
  }
  Run(next);
}

void GrpcStreamCall::OnSent() { Advance(); }

void GrpcStreamCall::OnCancelled() {
  {
    MutexLock lock(mutex_);
    cancelled_ = ended_ = true;
    slots_.clear();
  }
  Advance();
}

}  // namespace braid
