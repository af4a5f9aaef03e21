#include "protocols/kserve/grpc_infer_call.h"

#include "base/clock.h"
#include "base/guard.h"
#include "protocols/kserve/grpc_answer.h"
#include "protocols/kserve/grpc_response_writer.h"
#include "protocols/kserve/grpc_status.h"
#include "protocols/kserve/ovms_dialect.h"
#include "protocols/kserve/tracing.h"

namespace braid {

GrpcInferCall::GrpcInferCall(GrpcQueue& queue) : GrpcUnaryCall(queue, Api::kInference) {}

void GrpcInferCall::AskForClient(grpc::ServerContext* context, grpc::ByteBuffer* message, Writer* writer,
                                 grpc::ServerCompletionQueue* cq, void* tag) {
  queue().state().services.inference.RequestModelInfer(context, message, writer, cq, cq, tag);
}

void GrpcInferCall::Arm(GrpcQueue& queue) {
  auto& idle = queue.idle_infer_calls();
  GrpcInferCall* call = nullptr;
  if (idle.empty()) {
    call = new GrpcInferCall(queue);
  } else {
    call = idle.back().release();
    idle.pop_back();
  }
  call->WaitForClient();
  if (queue.state().compression != GRPC_COMPRESS_LEVEL_NONE) {
    call->context().set_compression_level(queue.state().compression);
  }
}

void GrpcInferCall::Recycle() {
  auto& idle = queue().idle_infer_calls();
  if (idle.size() >= GrpcQueue::kMaxIdleInferCalls) {
    delete this;
    return;
  }
  cancellation_.reset();
  answer_ = AnswerOptions();
  answered_ = false;
  trace_.reset();
  idle.emplace_back(this);
}

Status GrpcInferCall::CheckServing() { return queue().state().CheckServing(); }

void GrpcInferCall::Handle() {
  auto request = std::make_unique<InferenceRequest>();
  const Status status = Begin(request);
  queue().ForgetMessage();
  message().Clear();
  if (!status.ok()) {
    if (request->api) request->servable->get().api_counters().CountRefused(*request->api);
    FinishWithError(status);
    return;
  }
  AddReference();
  Servable& servable = request->servable->get();
  servable.Begin(std::move(request));
}

Status GrpcInferCall::Begin(std::unique_ptr<InferenceRequest>& request) {
  Tracer* const tracer = queue().state().context.tracer;
  const int64_t received_ns = tracer != nullptr && tracer->enabled() ? SteadyNowNs() : 0;
  queue().Spread(message());
  GrpcQueue::Scratch& scratch = queue().scratch();
  BRAID_RETURN_IF_ERROR(ParseInferRequest(scratch.segments, scratch.parsed));
  const Catalog& catalog = queue().state().context.catalog;
  BRAID_ASSIGN_OR_RETURN(request->model_version,
                         ParseModelVersion(scratch.parsed.model_version, catalog.dialect()));
  auto found = queue().catalog().Find(scratch.parsed.model_name, request->model_version);
  if (!found.ok()) return InferNotFound(catalog, scratch.parsed.model_name, found.status());
  request->servable = std::move(*found);
  Servable& servable = request->servable->get();
  if (servable.info().dialect == Dialect::kOvms) {
    request->api = ApiCall{ApiProtocol::kKServe, ApiInterface::kGrpc, ApiMethod::kModelInfer};
  }
  if (servable.info().decoupled) {
    return UnsupportedError("ModelInfer RPC doesn't support models with decoupled transaction policy");
  }
  BRAID_ASSIGN_OR_RETURN(const Parameters forwarded, queue().state().rules->ForwardedHeaders(context()));
  BRAID_ASSIGN_OR_RETURN(const std::string_view sequence,
                         GrpcMetadataRules::SequenceHeader(servable.info(), context()));
  BRAID_RETURN_IF_ERROR(BuildInferenceRequest(scratch.segments, scratch.parsed, servable,
                                              {forwarded, sequence}, *queue().state().context.client_memory,
                                              *request, answer_));
  cancellation_ = std::make_shared<Cancellation>();
  request->cancellation = cancellation_;
  if (received_ns != 0) {
    StartTrace(tracer, *request,
               {TraceProtocol::kGrpc, received_ns, GrpcMetadataRules::Header(context(), "traceparent"),
                GrpcMetadataRules::Header(context(), "tracestate")});
    trace_ = request->trace;
  }
  // From here on the request answers.
  request->sink = this;
  return OkStatus();
}

void GrpcInferCall::Cancelled() {
  if (cancellation_) cancellation_->Cancel();
}

void GrpcInferCall::Respond(std::optional<InferenceResponse> response, bool final) {
  // A unary call has room for one response; the first is the answer, and others are dropped.
  const bool answers = !answered_ && (response || final);
  answered_ = true;
  if (!answers || !open()) {
    if (final) DropReference();
    return;
  }
  const std::shared_ptr<RequestTrace> trace = std::move(trace_);
  if (trace) trace->Record(TraceActivity::kSendStart, SteadyNowNs());
  grpc::ByteBuffer bytes;
  const Status status = Guarded([&] {
    if (!response) return InternalError("the model ended the request without a response");
    ApplyAnswerOptions(answer_, *response);
    if (!response->status.ok()) return response->status;
    bytes = EncodeUnaryResponse(answer_.request_id, *response, answer_.shared_outputs).bytes;
    return OkStatus();
  });
  if (!ClaimAnswer()) {
    if (final) DropReference();
    return;
  }
  // From Deliver() on the other side may end the call at any time.
  if (final) DropReferenceEarly();
  Deliver(bytes, ToGrpcStatus(status));
  if (trace) trace->Record(TraceActivity::kSendEnd, SteadyNowNs());
}

}  // namespace braid
