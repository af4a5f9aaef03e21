#include "protocols/kserve/http/generate.h"

#include "base/guard.h"
#include "protocols/inference/request_headers.h"
#include "protocols/kserve/http/generate_request.h"
#include "protocols/kserve/http/generate_response.h"

namespace braid {
namespace {

Status NotOneResponse() {
  return InvalidArgumentError(
      "generate expects model to produce exactly 1 response, use generate stream for model that generates "
      "various number of responses");
}

}  // namespace

GenerateCall::GenerateCall(Setup setup, Body body)
    : HttpInference(std::move(setup)), body_(body), decoupled_(servable().info().decoupled) {}

Status GenerateCall::Read(std::string_view front, size_t, std::vector<std::span<std::byte>>&,
                          simdjson::dom::parser& parser, InferenceRequest& request) {
  BRAID_ASSIGN_OR_RETURN(const std::string_view sequence_header,
                         SequenceHeader(servable().info(), exchange().head()));
  const HttpInferTarget target{
      servable().info(), servable().input_allocator(), body_.max_input_bytes, {}, sequence_header};
  BRAID_RETURN_IF_ERROR(ReadGenerateRequest(front, target, parser, request));
  id_ = request.id;
  return OkStatus();
}

Result<HttpResponse> GenerateCall::Write(InferenceResponse response) {
  std::string json;
  BRAID_RETURN_IF_ERROR(AppendGenerateResponse(json, id_, response));
  return JsonResponse(std::move(json));
}

void GenerateCall::Respond(std::optional<InferenceResponse> response, bool final) {
  const std::shared_ptr<HttpInference> self = final ? TakeSelf() : nullptr;
  if (final) (void)TakeTrace();
  if (done_) return;
  if (body_.stream) {
    RespondStream(response, final);
  } else {
    RespondOnce(std::move(response), final);
  }
}

// ---- generate ----

void GenerateCall::RespondOnce(std::optional<InferenceResponse> response, bool final) {
  if (response && response_) {
    AnswerWith(MakeResponse([] { return Result<HttpResponse>(NotOneResponse()); }));
    if (!final) cancellation()->Cancel();
    return;
  }
  if (response) response_ = std::move(response);
  if (!response_) {
    AnswerWith(MakeResponse([this] {
      return Result<HttpResponse>(
          decoupled_ ? NotOneResponse() : InternalError("the model ended the request without a response"));
    }));
    return;
  }
  const bool failed = !response_->status.ok();
  if (!final && decoupled_ && !failed) return;
  AnswerWith(MakeResponse([this]() -> Result<HttpResponse> {
    BRAID_RETURN_IF_ERROR(response_->status);
    return Write(std::move(*response_));
  }));
  response_.reset();
  if (!final && failed) cancellation()->Cancel();
}

void GenerateCall::AnswerWith(HttpResponse response) {
  done_ = true;
  TakeExchange()->Respond(std::move(response));
}

// ---- generate_stream ----

void GenerateCall::RespondStream(const std::optional<InferenceResponse>& response, bool final) {
  // Responses without a model name come from before the servable accepted the request.
  if (response && !response->status.ok() && response->model_name.empty() && !streaming_) {
    AnswerWith(MakeResponse([&] { return Result<HttpResponse>(response->status); }));
    return;
  }
  if (response && !gone_) SendEvent(*response);
  if (!final && decoupled_) return;
  if (!streaming_) BeginStream(200);
  done_ = true;
  TakeExchange()->EndStream();
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
  // Retried if memory is short, with the text of that error; half an event is never sent.
  if (const Status fault = Guarded(write); !fault.ok()) {
    status = fault;
    if (!Guarded(write).ok()) event.clear();
  }
  if (!streaming_) BeginStream(HttpStatusOf(status));
  const HttpExchange::PartResult result = exchange().SendPart(event);
  if (result == HttpExchange::PartResult::kTaken) return;
  gone_ = true;
  if (result == HttpExchange::PartResult::kFull) {
    BRAID_LOG_WARNING(
        *body_.log,
        "generate_stream request cancelled: the client does not read, and {} MiB of responses are waiting",
        HttpExchange::kMaxWaitingBytes >> 20);
  }
  cancellation()->Cancel();
}

void GenerateCall::BeginStream(unsigned status) {
  streaming_ = true;
  HttpResponse head;
  head.status = status;
  head.content_type = "text/event-stream; charset=utf-8";
  head.headers.emplace_back("Cache-Control", "no-cache");
  exchange().BeginStream(std::move(head));
}

}  // namespace braid
