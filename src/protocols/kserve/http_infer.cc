#include "protocols/kserve/http_infer.h"

#include <charconv>

#include "base/clock.h"
#include "protocols/kserve/ovms_dialect.h"
#include "protocols/kserve/tracing.h"

namespace braid {
namespace {

// Documents above this size get a parser of their own, so that the thread's does not grow for ever.
constexpr size_t kMaxKeptParserBytes = size_t{1} << 20;
// Outputs above this size become JSON on the io thread, not on the thread that brings the response.
constexpr size_t kMaxInlineJsonBytes = size_t{64} * 1024;

HttpResponse WriteAnswer(std::string_view id, InferenceResponse response, const HttpOutputFormat& format) {
  return MakeResponse([&]() -> Result<HttpResponse> {
    if (!response.status.ok()) return response.status;
    return WriteInferResponse(id, std::move(response), format);
  });
}

void CompressAnswer(ContentCoding coding, HttpResponse& response) {
  if (response.status != 200) return;
  std::vector<std::string_view> parts = {response.body};
  for (const Buffer& buffer : response.tail) parts.push_back(buffer.text());
  auto compressed = Compress(coding, parts);
  if (!compressed.ok()) {
    response = ErrorResponse(compressed.status());
    return;
  }
  response.body = std::move(compressed).value();
  response.tail.clear();
  response.headers.emplace_back("Content-Encoding", ContentCodingName(coding));
}

Status RangeError(uint64_t size, std::string_view text) {
  return InvalidArgumentError("inference header size should be in range (0, " + std::to_string(size) +
                              "), got: " + std::string(text));
}

}  // namespace

Result<std::optional<uint64_t>> InferCall::JsonSize(const HttpExchange& exchange, Dialect dialect) {
  const auto text = FindHeader(exchange.head(), "Inference-Header-Content-Length");
  if (!text) return std::optional<uint64_t>();
  int64_t size = 0;
  const char* end = text->data() + text->size();
  auto [rest, error] = std::from_chars(text->data(), end, size);
  if (error != std::errc() || rest != end) {
    if (dialect == Dialect::kOvms) return OvmsError(OvmsCode::kRestHeaderLengthInvalid);
    return InvalidArgumentError("Unable to parse Inference-Header-Content-Length, got: " +
                                std::string(*text));
  }
  const auto body_size = exchange.body_size();
  if (size < 0 || (body_size && static_cast<uint64_t>(size) > *body_size)) {
    if (dialect == Dialect::kOvms) {
      return OvmsError(size < 0 ? OvmsCode::kRestHeaderLengthInvalid : OvmsCode::kRestHeaderLengthExceeded);
    }
    return RangeError(body_size.value_or(0), *text);
  }
  return std::optional<uint64_t>(static_cast<uint64_t>(size));
}

InferCall::InferCall(Setup setup) : setup_(std::move(setup)) {
  if (setup_.tracer != nullptr && setup_.tracer->enabled()) received_ns_ = SteadyNowNs();
}

size_t InferCall::front_bytes() const {
  return setup_.json_size ? static_cast<size_t>(*setup_.json_size) : kWholeBody;
}

Result<HttpInferRequest> InferCall::Read(std::string_view front, size_t rest) {
  const ServableInfo& info = setup_.servable->get().info();
  BRAID_ASSIGN_OR_RETURN(sequence_header_, HttpSequenceHeader(info, setup_.exchange->head()));
  const HttpInferTarget target{info, setup_.servable->get().input_allocator(), setup_.max_input_bytes,
                               setup_.client_memory, sequence_header_};
  const bool ovms = target.info.dialect == Dialect::kOvms;
  if (setup_.json_size && front.size() < *setup_.json_size) {
    if (ovms) return OvmsError(OvmsCode::kRestHeaderLengthExceeded);
    return RangeError(front.size(), std::to_string(*setup_.json_size));
  }
  if (front.empty()) {
    // What the bytes are is known of models alone.
    const bool graph = target.info.kind == ServableKind::kGraph;
    if (graph || (ovms && !setup_.json_size))
      return OvmsError(OvmsCode::kJsonInvalid, "The document is empty.");
    return ReadRawInferRequest(rest, target);
  }
  if (front.size() <= kMaxKeptParserBytes) {
    return ReadInferRequest(front, rest, setup_.json_size.has_value(), target, *setup_.parser);
  }
  simdjson::dom::parser parser;
  return ReadInferRequest(front, rest, setup_.json_size.has_value(), target, parser);
}

std::optional<HttpResponse> InferCall::OnFront(std::string_view front, size_t rest,
                                               std::vector<std::span<std::byte>>& destinations) {
  auto read = Read(front, rest);
  if (!read.ok()) {
    CountRefused(setup_.servable->get(), ApiInterface::kRest, ApiMethod::kModelInfer);
    return ErrorResponse(read.status());
  }
  destinations = std::move(read->destinations);
  format_ = std::move(read->format);
  request_ = std::move(read->request);
  sequence_ = std::move(read->sequence);
  id_ = request_->id;
  for (auto& parameter : setup_.header_parameters) request_->parameters.push_back(std::move(parameter));
  return std::nullopt;
}

void InferCall::OnBody() {
  if (sequence_) {
    const Status named = sequence_->Name(sequence_header_, *request_);
    if (!named.ok()) {
      CountRefused(setup_.servable->get(), ApiInterface::kRest, ApiMethod::kModelInfer);
      setup_.exchange->Respond(ErrorResponse(named));
      return;
    }
  }
  std::unique_ptr<InferenceRequest> request = std::move(request_);
  request->model_name = std::move(setup_.model_name);
  request->model_version = setup_.model_version;
  request->start_ns = SteadyNowNs();
  request->cancellation = std::make_shared<Cancellation>();
  setup_.exchange->SetCancellation(request->cancellation);
  Servable& servable = setup_.servable->get();
  if (servable.info().dialect == Dialect::kOvms) {
    request->api = ApiCall{ApiProtocol::kKServe, ApiInterface::kRest, ApiMethod::kModelInfer};
  }
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

void InferCall::Respond(std::optional<InferenceResponse> response, bool final) {
  const std::shared_ptr<InferCall> self = final ? std::move(self_) : nullptr;
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
  const ContentCoding coding = setup_.response_coding;
  const Status put = Guarded([&] { PutOutputs(format_, *response); });
  if (!put.ok()) {
    response->status = put;
    response->outputs.clear();
  }
  const bool slow =
      coding != ContentCoding::kIdentity || JsonOutputBytes(*response, format_) > kMaxInlineJsonBytes;
  if (!slow) {
    exchange->Respond(WriteAnswer(id_, std::move(*response), format_));
    if (trace) trace->Record(TraceActivity::kSendEnd, SteadyNowNs());
    return;
  }
  // std::function must be copyable, so what is moved travels in a shared pointer.
  struct Late {
    std::string id;
    InferenceResponse response;
    HttpOutputFormat format;
  };
  const Status posted = Guarded([&] {
    auto late = std::make_shared<Late>(Late{std::move(id_), std::move(*response), std::move(format_)});
    exchange->RunOnIoThread([exchange, coding, late, trace] {
      exchange->Respond(MakeResponse([&]() -> Result<HttpResponse> {
        HttpResponse answer = WriteAnswer(late->id, std::move(late->response), late->format);
        if (coding != ContentCoding::kIdentity) CompressAnswer(coding, answer);
        return answer;
      }));
      if (trace) trace->Record(TraceActivity::kSendEnd, SteadyNowNs());
    });
  });
  if (!posted.ok()) exchange->Respond(MakeResponse([&] { return Result<HttpResponse>(posted); }));
}

}  // namespace braid
