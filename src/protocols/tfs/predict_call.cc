#include "protocols/tfs/predict_call.h"

#include "base/clock.h"
#include "base/guard.h"
#include "protocols/kserve/grpc_status.h"
#include "protocols/kserve/tracing.h"
#include "protocols/tfs/lookup.h"
#include "protocols/tfs/predict_request_builder.h"
#include "serving/ovms_status.h"

namespace braid {
namespace {

constexpr ApiCall kApiCall{ApiProtocol::kTensorFlowServing, ApiInterface::kGrpc, ApiMethod::kPredict};

}  // namespace

TfsPredictCall::TfsPredictCall(GrpcQueue& queue, TfsRawServices& services)
    : GrpcUnaryCall(queue, Api::kInference), services_(services) {}

void TfsPredictCall::Arm(GrpcQueue& queue, TfsRawServices& services) {
  auto* call = new TfsPredictCall(queue, services);
  call->WaitForClient();
  if (queue.state().compression != GRPC_COMPRESS_LEVEL_NONE) {
    call->context().set_compression_level(queue.state().compression);
  }
}

void TfsPredictCall::AskForClient(grpc::ServerContext* context, grpc::ByteBuffer* message, Writer* writer,
                                  grpc::ServerCompletionQueue* cq, void* tag) {
  services_.prediction.RequestPredict(context, message, writer, cq, cq, tag);
}

Status TfsPredictCall::CheckServing() { return queue().state().CheckServing(); }

void TfsPredictCall::Handle() {
  auto request = std::make_unique<InferenceRequest>();
  const Status status = Begin(*request);
  queue().ForgetMessage();
  message().Clear();
  if (!status.ok()) {
    if (request->servable) request->servable->get().api_counters().Count(kApiCall, false);
    FinishWithError(status);
    return;
  }
  AddReference();
  Servable& servable = request->servable->get();
  servable.Begin(std::move(request));
}

Status TfsPredictCall::Begin(InferenceRequest& request) {
  GrpcServerState& state = queue().state();
  Tracer* const tracer = state.context.tracer;
  const int64_t received_ns = tracer != nullptr && tracer->enabled() ? SteadyNowNs() : 0;
  queue().Spread(message());
  const WireSegments segments = queue().scratch().segments;
  ParsedPredictRequest parsed;
  BRAID_RETURN_IF_ERROR(ParsePredictRequest(segments, parsed));
  if (!parsed.model.present) return OvmsError(OvmsCode::kModelSpecMissing);
  BRAID_ASSIGN_OR_RETURN(request.model_version, CatalogVersion(parsed.model.version));
  BRAID_ASSIGN_OR_RETURN(request.servable, FindForPredict(queue().catalog(), state.context.catalog.dialect(),
                                                          parsed.model.name, request.model_version));
  request.api = kApiCall;
  request.model_name = std::move(parsed.model.name);
  BRAID_ASSIGN_OR_RETURN(request.parameters, state.rules->ForwardedHeaders(context()));
  Servable& servable = request.servable->get();
  form_.stateful = servable.info().stateful.has_value();
  form_.filter = parsed.output_filter;
  BRAID_ASSIGN_OR_RETURN(const auto sequence_header,
                         GrpcMetadataRules::SequenceHeader(servable.info(), context()));
  BRAID_RETURN_IF_ERROR(BuildPredictRequest(segments, parsed, servable, sequence_header, request));
  cancellation_ = std::make_shared<Cancellation>();
  request.cancellation = cancellation_;
  if (received_ns != 0) {
    StartTrace(tracer, request,
               {TraceProtocol::kGrpc, received_ns, GrpcMetadataRules::Header(context(), "traceparent"),
                GrpcMetadataRules::Header(context(), "tracestate")});
    trace_ = request.trace;
  }
  // From here on the request answers.
  request.sink = this;
  return OkStatus();
}

void TfsPredictCall::Cancelled() {
  if (cancellation_) cancellation_->Cancel();
}

void TfsPredictCall::Respond(std::optional<InferenceResponse> response, bool final) {
  // There is room for one response; the first is the answer, and others are dropped.
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
    BRAID_RETURN_IF_ERROR(response->status);
    BRAID_ASSIGN_OR_RETURN(auto written, EncodePredictResponse(*response, form_));
    bytes = std::move(written.bytes);
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
