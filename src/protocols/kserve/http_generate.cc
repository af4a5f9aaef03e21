#include "protocols/kserve/http_generate.h"

#include "base/clock.h"
#include "protocols/kserve/http_generate_request.h"
#include "protocols/kserve/http_generate_response.h"
#include "protocols/kserve/tracing.h"

namespace braid {
namespace {

// Documents above this size get a parser of their own, so that the thread's does not grow for ever.
constexpr size_t kMaxKeptParserBytes = size_t{1} << 20;

Status NotOneResponse() {
  return InvalidArgumentError(
      "generate expects model to produce exactly 1 response, use generate stream for model that generates "
      "various number of responses");
}

HttpResponse WriteAnswer(std::string_view id, const InferenceResponse& response) {
  return MakeResponse([&]() -> Result<HttpResponse> {
    BRAID_RETURN_IF_ERROR(response.status);
    std::string json;
    BRAID_RETURN_IF_ERROR(AppendGenerateResponse(json, id, response));
    return JsonResponse(std::move(json));
  });
}

}  // namespace

std::optional<HttpResponse> GenerateCall::OnFront(std::string_view front, size_t,
                                                  std::vector<std::span<std::byte>>&) {
  Servable& servable = setup_.servable->get();
  const auto sequence_header = HttpSequenceHeader(servable.info(), setup_.exchange->head());
  if (!sequence_header.ok()) return ErrorResponse(sequence_header.status());
  const HttpInferTarget target{servable.info(), servable.input_allocator(), setup_.max_input_bytes, nullptr,
                               *sequence_header};
  std::optional<simdjson::dom::parser> large;
  if (front.size() > kMaxKeptParserBytes) large.emplace();
  auto read = ReadGenerateRequest(front, target, large ? *large : *setup_.parser);
  if (!read.ok()) return ErrorResponse(read.status());
  request_ = std::move(read).value();
  id_ = request_->id;
  for (auto& parameter : setup_.header_parameters) request_->parameters.push_back(std::move(parameter));
  return std::nullopt;
}

void GenerateCall::OnBody() {
  std::unique_ptr<InferenceRequest> request = std::move(request_);
  request->model_name = std::move(setup_.model_name);
  request->model_version = setup_.model_version;
  request->start_ns = SteadyNowNs();
  cancellation_ = std::make_shared<Cancellation>();
  request->cancellation = cancellation_;
  setup_.exchange->SetCancellation(cancellation_);
  Servable& servable = setup_.servable->get();
  decoupled_ = servable.info().decoupled;
  request->servable = std::move(setup_.servable);
  StartHttpTrace(setup_.tracer, *request, setup_.exchange->head(), request->start_ns);
  // From here on the request answers.
  self_ = shared_from_this();
  request->sink = this;
  servable.Begin(std::move(request));
}

void GenerateCall::Respond(std::optional<InferenceResponse> response, bool final) {
  const std::shared_ptr<GenerateCall> self = final ? std::move(self_) : nullptr;
  if (answered_) return;
  if (setup_.stream) {
    RespondStream(response, final);
  } else {
    RespondOnce(std::move(response), final);
  }
}

// ---- generate ----

void GenerateCall::RespondOnce(std::optional<InferenceResponse> response, bool final) {
  if (response && response_) {
    Answer(MakeResponse([] { return Result<HttpResponse>(NotOneResponse()); }));
    if (!final) cancellation_->Cancel();
    return;
  }
  if (response) response_ = std::move(response);
  if (!response_) {
    Answer(MakeResponse([this] {
      return Result<HttpResponse>(
          decoupled_ ? NotOneResponse() : InternalError("the model ended the request without a response"));
    }));
    return;
  }
  const bool failed = !response_->status.ok();
  if (!final && decoupled_ && !failed) return;
  Answer(WriteAnswer(id_, *response_));
  response_.reset();
  if (!final && failed) cancellation_->Cancel();
}

void GenerateCall::Answer(HttpResponse response) {
  answered_ = true;
  const std::shared_ptr<HttpExchange> exchange = std::move(setup_.exchange);
  exchange->Respond(std::move(response));
}

// ---- generate_stream ----

void GenerateCall::RespondStream(const std::optional<InferenceResponse>& response, bool final) {
  // Nobody but the servable that took the request names a model in its responses.
  if (response && !response->status.ok() && response->model_name.empty() && !streaming_) {
    Answer(MakeResponse([&] { return Result<HttpResponse>(response->status); }));
    return;
  }
  if (response && !gone_) SendEvent(*response);
  if (!final && decoupled_) return;
  if (!streaming_) BeginStream(200);
  answered_ = true;
  const std::shared_ptr<HttpExchange> exchange = std::move(setup_.exchange);
  exchange->EndStream();
}

void GenerateCall::SendEvent(const InferenceResponse& response) {
  std::string event;
  Status status = response.status;
  const auto write = [&] {
    event = "data: ";
    if (status.ok()) status = AppendGenerateResponse(event, id_, response);
    if (!status.ok()) {
      event = "data: ";
      AppendGenerateError(event, status.message());
    }
    event += "\n\n";
  };
  // Once more when memory is short, for the text of the error; half an event is not sent.
  if (const Status fault = Guarded(write); !fault.ok()) {
    status = fault;
    if (!Guarded(write).ok()) event.clear();
  }
  if (!streaming_) BeginStream(HttpStatusOf(status));
  const HttpExchange::PartResult result = setup_.exchange->SendPart(event);
  if (result == HttpExchange::PartResult::kTaken) return;
  gone_ = true;
  if (result == HttpExchange::PartResult::kFull) {
    BRAID_LOG_WARNING(*setup_.log,
                      "a generate_stream request was cancelled: its client does not read, and {} MiB of "
                      "responses wait for it",
                      HttpExchange::kMaxWaitingBytes >> 20);
  }
  cancellation_->Cancel();
}

void GenerateCall::BeginStream(unsigned status) {
  streaming_ = true;
  HttpResponse head;
  head.status = status;
  head.content_type = "text/event-stream; charset=utf-8";
  head.headers.emplace_back("Cache-Control", "no-cache");
  setup_.exchange->BeginStream(std::move(head));
}

}  // namespace braid
