#include "protocols/kserve/grpc/stream_call.h"

#include <algorithm>
#include <utility>

#include "base/clock.h"
#include "base/guard.h"
#include "protocols/grpc/status.h"
#include "protocols/inference/dialect.h"
#include "protocols/inference/request_headers.h"
#include "protocols/kserve/grpc/graph_stream.h"
#include "protocols/kserve/grpc/service.h"

namespace braid {
namespace {

// Whether the client of a stream wants the first error to end it ("triton_grpc_error: true").
bool WantsGrpcErrors(const grpc::ServerContextBase& context) {
  const auto [begin, end] = context.client_metadata().equal_range("triton_grpc_error");
  return std::any_of(begin, end, [](const auto& entry) { return ToStd(entry.second) == "true"; });
}

}  // namespace

// One request's share in the stream. Deletes itself with the final response.
class GrpcStreamCall::Sink final : public ResponseSink {
 public:
  explicit Sink(GrpcStreamCall& stream) : stream_(stream) {}

  void Respond(std::optional<InferenceResponse> response, bool final) override;

  AnswerOptions answer;
  std::shared_ptr<Cancellation> cancellation = std::make_shared<Cancellation>();
  bool decoupled = false;
  // Of the model, for empty final responses.
  std::string model_name;
  int64_t model_version = 0;
  uint64_t slot = 0;
  bool answered = false;  // nothing more is sent; the request's owner's, as all of Respond() is

  // Guarded by the stream's mutex.
  bool sent_all = false;
  Sink* previous = nullptr;
  Sink* next = nullptr;
  bool linked = false;

 private:
  void RespondOpen(std::optional<InferenceResponse> response, bool final);

  // A response that cannot be encoded is replaced by the error that says so.
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
      return {EncodeStreamResponse(answer.request_id, response, final, &answer.outputs), grpc::Status::OK};
    }
    const InferenceResponse* accepted = response.model_name.empty() ? nullptr : &response;
    return {EncodeStreamError(answer.request_id, response.status.message(), accepted, final),
            ToGrpcStatus(response.status)};
  }

  GrpcStreamCall& stream_;
};

void GrpcStreamCall::Sink::RespondOpen(std::optional<InferenceResponse> response, bool final) {
  // A model that answers once is done with its first response; what else it sends is dropped.
  const bool answers = final || !decoupled;
  if (!response && decoupled && !answer.empty_final_response) {
    answered = true;
    stream_.EndSilently(*this);
    return;
  }
  if (!response) {
    response.emplace();
    response->model_name = model_name;
    response->model_version = model_version;
    if (!decoupled) response->status = InternalError("the model ended the request without a response");
  }
  answered = answers;
  if (!stream_.closed_.load(std::memory_order_acquire)) {
    stream_.Send(*this, Encode(*response, answers), answers);
  }
}

void GrpcStreamCall::Sink::Respond(std::optional<InferenceResponse> response, bool final) {
  if (!answered) {
    const Status fault = Guarded([&] { RespondOpen(std::move(response), final); });
    if (!fault.ok()) stream_.EndWithFault(fault);
  }
  if (!final) return;
  GrpcStreamCall& stream = stream_;
  stream.Forget(*this);
  delete this;
  stream.DropReference();
}

GrpcStreamCall::GrpcStreamCall(KserveQueue& queue)
    : kserve_(queue),
      queue_(queue.queue),
      registry_(queue.kserve.streams),
      context_(std::in_place),
      stream_(std::in_place, &*context_),
      io_{*stream_, message_, read_event_, written_event_, finished_event_, queue.context().log} {}

GrpcStreamCall::~GrpcStreamCall() = default;

void GrpcStreamCall::Arm(KserveQueue& kserve) {
  const PatientAllocation patience;
  auto* call = new GrpcStreamCall(kserve);
  GrpcQueue& queue = kserve.queue;
  queue.CallArmed();
  call->context_->AsyncNotifyWhenDone(static_cast<GrpcEvent*>(&call->done_event_));
  if (queue.state().compression != GRPC_COMPRESS_LEVEL_NONE) {
    call->context_->set_compression_level(queue.state().compression);
  }
  kserve.kserve.services.inference.RequestModelStreamInfer(&*call->context_, &*call->stream_, queue.cq(),
                                                           queue.cq(),
                                                           static_cast<GrpcEvent*>(&call->called_event_));
}

void GrpcStreamCall::OnCalled(bool ok) {
  if (!ok) {
    // The server stops and nobody called; the event of the end does not come for such a call.
    GrpcQueue& queue = queue_;
    delete this;
    queue.CallEnded();
    return;
  }
  GrpcServerState& state = queue_.state();
  if (queue_.taking_calls()) Arm(kserve_);
  const Status status = Guarded([&] {
    BRAID_RETURN_IF_ERROR(state.access.Check(Api::kInference, *context_));
    BRAID_RETURN_IF_ERROR(state.CheckServing());
    BRAID_RETURN_IF_ERROR(kserve_.context().grpc_headers.Append(*context_, forwarded_));
    grpc_errors_ = WantsGrpcErrors(*context_);
    registry_.Add(this);
    return OkStatus();
  });
  {
    MutexLock lock(mutex_);
    // A drain that began before the stream was registered did not see it.
    draining_ = draining_ || state.draining;
    if (!status.ok()) traffic_.End(ToGrpcStatus(status));
  }
  Advance();
}

void GrpcStreamCall::Drain() {
  {
    MutexLock lock(mutex_);
    draining_ = true;
  }
  Advance();
}

void GrpcStreamCall::OnRead(bool ok) {
  GrpcGraphStream* graph = nullptr;
  {
    MutexLock lock(mutex_);
    graph = graph_.get();
    traffic_.OnRead(ok);
    if (!ok && first_message_ && needs_a_servable()) {
      traffic_.End(ToGrpcStatus(FaultError(Fault::kGraphUninitializedStreamClosure)));
    }
    handling_ = ok && traffic_.open() && (graph == nullptr || !draining_);
    ok = handling_;
  }
  if (ok) {
    // What it throws, it throws before the request is on its way.
    const Status fault = Guarded([&] { HandleMessage(graph); });
    const bool told = fault.ok() || (graph == nullptr && Guarded([&] { Refuse(fault, ""); }).ok());
    if (!told) EndWith(fault);
  }
  message_.Clear();
  const PatientAllocation patience;
  Next next;
  {
    MutexLock lock(mutex_);
    handling_ = false;
    AdvanceLocked(next);
  }
  Run(next);
  OperationEnded();
}

void GrpcStreamCall::HandleMessage(GrpcGraphStream* graph) {
  Tracer* const tracer = kserve_.context().tracer;
  const int64_t received_ns = ReceivedNs(tracer);
  const WireSegments segments = queue_.Spread(message_);
  if (graph != nullptr) {
    graph->Handle(segments);
    return;
  }
  auto request = std::make_unique<InferenceRequest>();
  auto sink = std::make_unique<Sink>(*this);
  const bool first = std::exchange(first_message_, false);
  Status status = FindServable(segments, *request, *sink);
  const bool found = status.ok();
  if (first && found && request->servable->get().takes_streams()) {
    Converse(segments, std::move(request->servable));
    return;
  }
  if (found) status = Build(segments, *request, *sink);
  queue_.ForgetMessage();
  message_.Clear();
  if (first && !found && needs_a_servable()) {
    EndWith(status);
    return;
  }
  if (!status.ok()) {
    CountRefusal(*request);
    Refuse(status, sink->answer.request_id);
    return;
  }
  if (received_ns != 0) {
    StartTrace(tracer, *request, TraceOriginOf(*context_, received_ns));
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
  AddReference();
  request->sink = sink.release();
  Servable& servable = request->servable->get();
  servable.Begin(std::move(request));
}

bool GrpcStreamCall::needs_a_servable() const {
  return RulesOf(kserve_.context().catalog).streams_need_a_servable;
}

void GrpcStreamCall::EndWith(const Status& status) {
  MutexLock lock(mutex_);
  traffic_.End(ToGrpcStatus(status));
}

void GrpcStreamCall::EndWithFault(const Status& status) noexcept {
  const PatientAllocation patience;
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
  BRAID_RETURN_IF_ERROR(queue_.state().CheckServing());
  return braid::FindServable(kserve_, ApiMethod::kModelInferStream, request);
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
  BRAID_ASSIGN_OR_RETURN(const std::string_view sequence, SequenceHeader(servable.info(), *context_));
  return BuildInferenceRequest(segments, kserve_.parsed, servable, {forwarded_, sequence},
                               *kserve_.context().client_memory, request, answer);
}

void GrpcStreamCall::Refuse(const Status& status, const std::string& id) {
  const PatientAllocation patience;
  Outgoing outgoing{EncodeStreamError(id, status.message(), nullptr, true), ToGrpcStatus(status)};
  Next next;
  {
    MutexLock lock(mutex_);
    if (!traffic_.open()) return;
    const uint64_t slot = first_slot_ + slots_.size();
    slots_.emplace_back();
    ++open_requests_;
    FillSlotLocked(slot, std::move(outgoing));
    AdvanceLocked(next);
  }
  Run(next);
}

void GrpcStreamCall::Send(Sink& sink, Outgoing outgoing, bool answers) {
  const PatientAllocation patience;
  Next next;
  {
    MutexLock lock(mutex_);
    sink.sent_all = sink.sent_all || answers;
    if (traffic_.open()) {
      if (sink.decoupled) {
        if (answers) --open_requests_;
        if (!traffic_.CutOff(next.claims)) PushLocked(std::move(outgoing));
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
    if (!traffic_.ended()) PushLocked(std::move(answer));
  }
}

void GrpcStreamCall::PushLocked(Outgoing outgoing) {
  if (grpc_errors_ && !outgoing.end.ok()) {
    traffic_.End(std::move(outgoing.end));
  } else {
    traffic_.Push(std::move(outgoing.message));
  }
}

void GrpcStreamCall::CancelSinksLocked(Next& next) {
  // Nobody hears these requests any more. Each is told once: then it is off the list. One that has sent all
  // its answers may go on, unless the client really cancelled.
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
  if (traffic_.ended()) {
    closed_.store(true, std::memory_order_release);
    CancelSinksLocked(next);
  }
  StreamTraffic::Claims& claims = next.claims;
  traffic_.ClaimWrite(claims);
  traffic_.ClaimEnd(claims);
  next.graph = graph_.get();
  if (graph_) {
    if (graph_->WantsMessageLocked() && !handling_) traffic_.ClaimRead(claims);
    return;
  }
  const bool answering = handling_ || open_requests_ > 0;
  if (!answering && traffic_.half_closed()) traffic_.ClaimFinish(grpc::Status::OK, claims);
  if (!answering && draining_) {
    traffic_.ClaimFinish({grpc::StatusCode::UNAVAILABLE, "Server exiting"}, claims);
  }
  if (!handling_ && open_requests_ + traffic_.waiting() < kMaxOpenRequests &&
      traffic_.waiting_bytes() < kPauseBytes) {
    traffic_.ClaimRead(claims);
  }
}

void GrpcStreamCall::Run(Next& next) {
  // The caller's own share keeps the object.
  StreamTraffic::Start(io_, next.claims);
  for (const std::shared_ptr<Cancellation>& cancellation : next.cancel) cancellation->Cancel();
  if (next.graph != nullptr) next.graph->Tell();
}

void GrpcStreamCall::Advance() {
  const PatientAllocation patience;
  Next next;
  {
    MutexLock lock(mutex_);
    AdvanceLocked(next);
  }
  Run(next);
}

void GrpcStreamCall::OnWritten(bool ok) {
  const PatientAllocation patience;
  Next next;
  {
    MutexLock lock(mutex_);
    traffic_.OnWritten(ok);
    if (!ok) slots_.clear();
    AdvanceLocked(next);
  }
  Run(next);
  OperationEnded();
}

void GrpcStreamCall::OnFinished(bool) { OperationEnded(); }

void GrpcStreamCall::OnDone(bool) {
  registry_.Remove(this);
  {
    MutexLock lock(mutex_);
    cancelled_ = context_->IsCancelled();
    traffic_.OnDone();
    slots_.clear();
  }
  Advance();
  OperationEnded();
}

void GrpcStreamCall::OperationEnded() {
  {
    MutexLock lock(mutex_);
    if (!traffic_.OperationEnded()) return;
  }
  Leave();
}

void GrpcStreamCall::Leave() {
  stream_.reset();
  context_.reset();
  GrpcQueue& queue = queue_;
  DropReference();
  queue.CallEnded();
}

}  // namespace braid
