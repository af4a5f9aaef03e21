#include "protocols/inference/http_inference.h"

#include "base/clock.h"
#include "protocols/inference/request_headers.h"

namespace braid {

HttpInference::HttpInference(Setup setup)
    : setup_(std::move(setup)), received_ns_(ReceivedNs(setup_.tracer)) {}

std::optional<HttpResponse> HttpInference::OnFront(std::string_view front, size_t rest,
                                                   std::vector<std::span<std::byte>>& destinations) {
  request_ = std::make_unique<InferenceRequest>();
  request_->api = setup_.api;
  std::optional<simdjson::dom::parser> own;
  if (front.size() > kLargeFront) own.emplace();
  const Status read = Read(front, rest, destinations, own ? *own : *setup_.parser, *request_);
  if (!read.ok()) return Refuse(read);
  for (auto& parameter : setup_.header_parameters) request_->parameters.push_back(std::move(parameter));
  return std::nullopt;
}

std::optional<HttpResponse> HttpInference::Refuse(const Status& status) {
  if (setup_.api) servable().api_counters().CountRefused(*setup_.api);
  return ErrorResponse(status);
}

void HttpInference::OnBody() {
  if (const Status rest = ReadRest(*request_); !rest.ok()) {
    setup_.exchange->Respond(*Refuse(rest));
    return;
  }
  std::unique_ptr<InferenceRequest> request = std::move(request_);
  request->model_name = std::move(setup_.model_name);
  request->model_version = setup_.model_version;
  if (request->start_ns == 0) request->start_ns = SteadyNowNs();
  request->servable = std::move(setup_.servable);
  Prepare(*request, setup_.tracer,
          received_ns_ == 0 ? TraceOrigin() : TraceOriginOf(setup_.exchange->head(), received_ns_));
  setup_.exchange->SetCancellation(request->cancellation);
  self_ = shared_from_this();
  Begin(std::move(request));
}

void HttpInference::Answer(InferenceResponse response, bool last) {
  const std::shared_ptr<HttpInference> self = last ? std::move(self_) : shared_from_this();
  const std::shared_ptr<HttpExchange> exchange = TakeExchange();
  const std::shared_ptr<RequestTrace> trace = TakeTrace();
  if (trace) trace->Record(TraceActivity::kSendStart, SteadyNowNs());
  if (response.status.ok()) {
    response.status = Guarded([&] { return Finish(response); });
    if (!response.status.ok()) response.outputs.clear();
  }
  const auto send = [](HttpInference& call, HttpExchange& to, InferenceResponse what,
                       const std::shared_ptr<RequestTrace>& sent) {
    to.Respond(MakeResponse([&]() -> Result<HttpResponse> {
      BRAID_RETURN_IF_ERROR(what.status);
      return call.Write(std::move(what));
    }));
    if (sent) sent->Record(TraceActivity::kSendEnd, SteadyNowNs());
  };
  if (!IsSlow(response)) {
    send(*self, *exchange, std::move(response), trace);
    return;
  }
  const Status posted = Guarded([&] {
    // std::function must be copyable, so the response travels in a shared pointer.
    auto late = std::make_shared<InferenceResponse>(std::move(response));
    exchange->RunAside(
        [send, self, exchange, late, trace] { send(*self, *exchange, std::move(*late), trace); });
  });
  if (!posted.ok()) exchange->Respond(MakeResponse([&] { return Result<HttpResponse>(posted); }));
}

}  // namespace braid
