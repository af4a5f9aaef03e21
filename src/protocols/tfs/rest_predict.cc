#include "protocols/tfs/rest_predict.h"

#include "base/clock.h"
#include "protocols/kserve/http_sequence.h"
#include "protocols/kserve/tracing.h"
#include "protocols/tfs/rest_predict_response.h"

namespace braid {
namespace {

// Documents above this size get a parser of their own, so that the thread's does not grow for ever.
constexpr size_t kMaxKeptParserBytes = size_t{1} << 20;
// Outputs above this size become JSON on the io thread, not on the thread that brings the response.
constexpr size_t kMaxInlineJsonBytes = size_t{64} * 1024;

constexpr ApiCall kApiCall{ApiProtocol::kTensorFlowServing, ApiInterface::kRest, ApiMethod::kPredict};

HttpResponse WriteAnswer(const InferenceResponse& response, TfsFormat format, bool stateful) {
  return MakeResponse([&]() -> Result<HttpResponse> {
    BRAID_RETURN_IF_ERROR(response.status);
    BRAID_ASSIGN_OR_RETURN(std::string json, WriteRestPredictResponse(response, format, stateful));
    return JsonResponse(std::move(json));
  });
}

}  // namespace

TfsRestPredictCall::TfsRestPredictCall(Setup setup) : setup_(std::move(setup)) {
  if (setup_.tracer != nullptr && setup_.tracer->enabled()) received_ns_ = SteadyNowNs();
}

std::optional<HttpResponse> TfsRestPredictCall::OnFront(std::string_view front, size_t,
                                                        std::vector<std::span<std::byte>>&) {
  Servable& servable = setup_.servable->get();
  request_ = std::make_unique<InferenceRequest>();
  request_->api = kApiCall;
  request_->start_ns = SteadyNowNs();
  stateful_ = servable.info().stateful.has_value();
  auto format = Read(front);
  if (!format.ok()) {
    servable.api_counters().Count(kApiCall, false);
    return ErrorResponse(format.status());
  }
  format_ = *format;
  return std::nullopt;
}

Result<TfsFormat> TfsRestPredictCall::Read(std::string_view body) {
  Servable& servable = setup_.servable->get();
  simdjson::dom::parser own;
  simdjson::dom::parser& parser = body.size() <= kMaxKeptParserBytes ? *setup_.parser : own;
  BRAID_ASSIGN_OR_RETURN(const auto sequence_header,
                         HttpSequenceHeader(servable.info(), setup_.exchange->head()));
  return ReadRestPredictRequest(body, sequence_header, servable, parser, *request_);
}

void TfsRestPredictCall::OnBody() {
  std::unique_ptr<InferenceRequest> request = std::move(request_);
  request->model_name = std::move(setup_.model_name);
  request->model_version = setup_.model_version;
  request->parameters = std::move(setup_.header_parameters);
  request->cancellation = std::make_shared<Cancellation>();
  setup_.exchange->SetCancellation(request->cancellation);
  Servable& servable = setup_.servable->get();
  request->servable = std::move(setup_.servable);
  if (received_ns_ != 0) {
    StartHttpTrace(setup_.tracer, *request, setup_.exchange->head(), received_ns_);
    trace_ = request->trace;
  }
  // From here on the request answers.
  self_ = shared_from_this();
  request->sink = this;
  servable.Begin(std::move(request));
}

void TfsRestPredictCall::Respond(std::optional<InferenceResponse> response, bool final) {
  const std::shared_ptr<TfsRestPredictCall> self = final ? std::move(self_) : nullptr;
  // The first response is the answer; a model that answers once has no more to say.
  if (answered_) return;
  answered_ = true;
  if (!response) {
    response.emplace();
    response->status = InternalError("the model ended the request without a response");
  }
  const std::shared_ptr<HttpExchange> exchange = std::move(setup_.exchange);
  const std::shared_ptr<RequestTrace> trace = std::move(trace_);
  if (trace) trace->Record(TraceActivity::kSendStart, SteadyNowNs());
  size_t bytes = 0;
  for (const Tensor& output : response->outputs) bytes += output.data.size();
  if (bytes <= kMaxInlineJsonBytes) {
    exchange->Respond(WriteAnswer(*response, format_, stateful_));
    if (trace) trace->Record(TraceActivity::kSendEnd, SteadyNowNs());
    return;
  }
  // std::function must be copyable, so what is moved travels in a shared pointer.
  const Status posted = Guarded([&] {
    auto late = std::make_shared<InferenceResponse>(std::move(*response));
    exchange->RunOnIoThread([exchange, late, trace, format = format_, stateful = stateful_] {
      exchange->Respond(WriteAnswer(*late, format, stateful));
      if (trace) trace->Record(TraceActivity::kSendEnd, SteadyNowNs());
    });
  });
  if (!posted.ok()) exchange->Respond(MakeResponse([&] { return Result<HttpResponse>(posted); }));
}

}  // namespace braid
