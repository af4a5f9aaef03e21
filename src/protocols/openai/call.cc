#include "protocols/openai/call.h"

#include <algorithm>
#include <random>
#include <utility>

#include "base/clock.h"
#include "base/guard.h"
#include "base/utf8.h"
#include "protocols/inference/request_headers.h"
#include "protocols/inference/unary_inference.h"
#include "protocols/openai/embedding_run.h"
#include "protocols/openai/errors.h"
#include "protocols/openai/tensors.h"
#include "protocols/openai/text_inputs.h"
#include "serving/faults.h"

namespace braid {
namespace {

// Returns a new id of a reply: "chatcmpl-" and 24 hexadecimal digits.
std::string NewId(OpenAiRoute route) {
  thread_local std::mt19937_64 random{std::random_device{}()};
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string id = route == OpenAiRoute::kChat ? "chatcmpl-" : "cmpl-";
  uint64_t bits = 0;
  for (int i = 0; i < 24; ++i) {
    if (i % 16 == 0) bits = random();
    id += kDigits[bits & 15];
    bits >>= 4;
  }
  return id;
}

// Headers with credentials, in addition to those that HeaderForwarding withholds.
constexpr std::string_view kCredentials[] = {"cookie", "proxy-authorization", "x-api-key", "api-key"};

std::string_view PathOfRoute(OpenAiRoute route) {
  switch (route) {
    case OpenAiRoute::kChat:
      return "/v1/chat/completions";
    case OpenAiRoute::kCompletion:
      return "/v1/completions";
    case OpenAiRoute::kEmbedding:
      break;
  }
  return "/v1/embeddings";
}

// Whether a convention answers a route.
bool Answers(OpenAiKind kind, OpenAiRoute route) {
  switch (kind) {
    case OpenAiKind::kNone:
      return false;
    case OpenAiKind::kText:
      return route != OpenAiRoute::kEmbedding;
    case OpenAiKind::kEmbedding:
      return route == OpenAiRoute::kEmbedding;
    case OpenAiKind::kRaw:
    case OpenAiKind::kPayload:
      break;
  }
  return true;
}

}  // namespace

std::optional<HttpResponse> OpenAiCall::OnFront(std::string_view front, size_t,
                                                std::vector<std::span<std::byte>>&) {
  received_ns_ = SteadyNowNs();
  body_ = front;
  charge_ = MemoryCharge(body_.capacity());
  id_ = NewId(setup_.route);
  request_id_ = ToUtf8(FindHeader(setup_.exchange->head(), kRequestIdHeader).value_or(id_));
  FieldFault fault;
  const Status read = Guarded([&] { fault = ReadOpenAiRequest(setup_.route, body_, request_); });
  if (!read.ok()) fault.status = read;
  if (fault.ok()) return std::nullopt;
  return Named(OpenAiError(fault.status, fault.field));
}

void OpenAiCall::OnBody() {
  setup_.exchange->SetCancellation(cancellation_);
  Start();
}

void OpenAiCall::Start() {
  const auto self = shared_from_this();  // the request may end at once
  FieldFault fault;
  const Status guarded = Guarded([&] { fault = Find(); });
  // The sink has the last word on a request that has begun.
  if (begun_) return;
  if (!guarded.ok()) {
    Fail(guarded);
  } else if (!fault.ok()) {
    const bool unknown = fault.field == "model" && HttpStatusOf(fault.status) == 404;
    Fail(fault.status, fault.field, unknown ? kModelNotFound : "");
  }
}

FieldFault OpenAiCall::Find() {
  auto allowed = setup_.host->Authorize(*setup_.exchange, {Api::kInference, request_.model});
  if (!allowed.ok()) return {allowed.status(), ""};
  auto found = setup_.reader->Find(request_.model, -1);
  if (found.ok()) return Begin(*std::move(found));
  if (found.status().fault() != Fault::kLoadsOnDemand) return {found.status(), "model"};
  StartAfterLoad();
  return {};
}

void OpenAiCall::StartAfterLoad() {
  if (load_since_ns_ == 0) load_since_ns_ = received_ns_;
  OnDemandLoader& loader = *setup_.context->catalog.on_demand_loader();
  loader.Load(request_.model, load_since_ns_, [self = shared_from_this()](const Status& loaded) {
    const RetryingAllocation retrying;  // the client waits for this
    self->setup_.exchange->RunOnIoThread([self, loaded] {
      Status fault = loaded;
      if (fault.ok() && self->cancellation_->cancelled()) fault = CancelledError("the client has gone");
      if (!fault.ok()) {
        self->Fail(fault, "model");
      } else {
        self->Start();  // does not throw
      }
    });
  });
}

FieldFault OpenAiCall::Begin(std::unique_ptr<ServableHandle> handle) {
  const ServableInfo& info = handle->get().info();
  if (!Answers(info.openai.kind, setup_.route)) {
    return InvalidField("model '" + info.name + "' cannot answer " + std::string(PathOfRoute(setup_.route)) +
                            ": its inputs and outputs are of no convention for it (docs/openai.md)",
                        "model");
  }
  auto request = std::make_unique<InferenceRequest>();
  const HttpHead& head = setup_.exchange->head();
  if (const Status status = setup_.context->http_headers.Append(head, request->parameters); !status.ok())
    return {status, ""};
  IgnoreFields(info.openai.ignored, request_);
  request->id = request_id_;
  request->model_name = info.name;
  request->start_ns = received_ns_;
  servable_ = handle->share();
  request->servable = std::move(handle);
  switch (info.openai.kind) {
    case OpenAiKind::kText:
      return BeginText(std::move(request));
    case OpenAiKind::kRaw:
      return BeginRaw(std::move(request));
    case OpenAiKind::kEmbedding:
      return BeginEmbedding(std::move(request));
    case OpenAiKind::kPayload:
      return BeginGraph(std::move(request));
    case OpenAiKind::kNone:
      break;
  }
  BRAID_CHECK(false);
}

OpenAiReplyFacts OpenAiCall::Facts() const {
  return {setup_.route, id_, WallNowMs() / 1000, request_.model, request_.stream, request_.include_usage};
}

FieldFault OpenAiCall::BeginText(std::unique_ptr<InferenceRequest> request) {
  TextCuts cuts;
  BRAID_RETURN_IF_FAULT(
      FillTextInputs(request_, servable_->info(), servable_->input_allocator(), *request, cuts));
  reply_ = MakeTextReply(Facts(), request_.choices, std::move(cuts), request_.max_tokens);
  Run(std::move(request));
  return {};
}

FieldFault OpenAiCall::BeginRaw(std::unique_ptr<InferenceRequest> request) {
  const ServableInfo& info = servable_->info();
  const Json document = Document("path", PathOfRoute(setup_.route));
  auto input = InputOf(*info.FindInput(kOpenAiRequestInput), document, info.max_batch_size > 0,
                       servable_->input_allocator());
  if (!input.ok()) return {input.status(), ""};
  request->inputs.push_back(*std::move(input));
  reply_ = MakeRawReply(Facts());
  Run(std::move(request));
  return {};
}

FieldFault OpenAiCall::BeginEmbedding(std::unique_ptr<InferenceRequest> request) {
  Trace(*request);
  return EmbeddingRun::Begin(request_, std::move(request), setup_.exchange, cancellation_);
}

FieldFault OpenAiCall::BeginGraph(std::unique_ptr<InferenceRequest> request) {
  std::string document = Document("uri", PathOf(setup_.exchange->head()));
  document.insert(document.size() - 1, request_.stream ? ",\"stream\":true" : ",\"stream\":false");
  Tensor& input = request->inputs.emplace_back();
  input.name = servable_->info().inputs.front().name;
  input.type = DataType::kCustom;
  input.custom_type = kRequestPayloadTag;
  input.shape = {static_cast<int64_t>(document.size())};
  auto memory = servable_->input_allocator().Allocate(document.size());
  if (!memory.ok()) return {memory.status(), ""};
  std::copy(document.begin(), document.end(), reinterpret_cast<char*>(memory->mutable_data()));
  input.data = *std::move(memory);
  reply_ = MakePayloadReply(request_.stream);
  return RunGraph(std::move(request));
}

void OpenAiCall::Run(std::unique_ptr<InferenceRequest> request) {
  request->cancellation = cancellation_;
  FreeBody();
  Trace(*request);
  self_ = shared_from_this();
  begun_ = true;
  BeginRequest(std::move(request), *this);
}

void OpenAiCall::Trace(InferenceRequest& request) {
  StartTrace(setup_.context->tracer, request, TraceOriginOf(setup_.exchange->head(), received_ns_));
  trace_ = request.trace;
}

void OpenAiCall::FreeBody() {
  FreeText(body_);
  request_.body = Json();
  charge_ = MemoryCharge();
}

FieldFault OpenAiCall::RunGraph(std::unique_ptr<InferenceRequest> request) {
  if (Status admitted = servable_->Admit(*request); !admitted.ok()) return {std::move(admitted), ""};
  FreeBody();
  Trace(*request);
  // A run that fails at once may end on another thread before OpenStream() returns.
  self_ = shared_from_this();
  auto opened = servable_->OpenStream(*request, *this);
  if (!opened.ok()) {
    self_.reset();
    return {opened.status(), ""};
  }
  begun_ = true;
  const std::shared_ptr<ServableStream> stream = *std::move(opened);
  {
    MutexLock lock(mutex_);
    if (!ended_) stream_ = stream;
  }
  cancellation_->SetListener([weak = std::weak_ptr(stream)] {
    if (const auto running = weak.lock()) running->Cancel();
  });
  // The run may end at any time from now on.
  if (Status pushed = stream->Push(*request); pushed.ok()) {
    stream->CloseInputs();
  } else {
    {
      MutexLock lock(mutex_);
      refused_ = std::move(pushed);
    }
    stream->Cancel();
  }
  return {};
}

std::string OpenAiCall::Document(std::string_view path_name, std::string_view path) const {
  Json headers = Json::object();
  for (const auto& field : setup_.exchange->head()) {
    std::string name(ToStd(field.name_string()));
    std::transform(name.begin(), name.end(), name.begin(),
                   [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; });
    if (setup_.context->http_headers.Withholds(name) || std::ranges::count(kCredentials, name) > 0) continue;
    const std::string value = ToUtf8(ToStd(field.value()));
    const auto known = headers.find(name);
    headers[name] = known == headers.end() ? value : known->get<std::string>() + ", " + value;
  }
  std::string document = "{\"" + std::string(path_name) + "\":";
  AppendJsonString(document, ToUtf8(path));
  document.append(",\"headers\":").append(DumpJson(headers)).append(",\"body\":").append(body_).append("}");
  return document;
}

// ---- responses ----

void OpenAiCall::Respond(std::optional<InferenceResponse> response, bool final) {
  const std::shared_ptr<OpenAiCall> self = final ? std::move(self_) : nullptr;
  if (final) trace_.reset();
  if (response && !done_) Take(*std::move(response));
  if (final && !done_) Finish();
}

void OpenAiCall::Respond(InferenceResponse response, const std::string&) {
  if (!done_) Take(std::move(response));
}

void OpenAiCall::End(Status status) {
  const std::shared_ptr<OpenAiCall> self = std::move(self_);
  std::shared_ptr<ServableStream> stream;
  {
    MutexLock lock(mutex_);
    ended_ = true;
    stream = std::move(stream_);
    if (!refused_.ok()) status = refused_;
  }
  trace_.reset();
  if (done_) return;
  if (status.ok()) {
    Finish();
  } else {
    Fail(status);
  }
}

void OpenAiCall::Take(InferenceResponse response) {
  Status status = response.status;
  std::string events;
  if (status.ok()) {
    RecordTime();
    status = Guarded([&] { return reply_->Take(response, events); });
  }
  if (!status.ok()) {
    Fail(status);
    CancelRun();
    return;
  }
  if (!events.empty()) SendEvents(events);
  if (done_ || !reply_->complete()) return;
  Finish();
  CancelRun();
}

void OpenAiCall::Finish() {
  const RetryingAllocation retrying;  // the client waits for the end
  std::string last;
  if (const Status status = Guarded([&] { return reply_->End(last); }); !status.ok()) {
    Fail(status);
    return;
  }
  if (request_.stream) {
    if (!last.empty() || !streaming_) SendEvents(last);
    if (done_) return;
    done_ = true;
    setup_.exchange->EndStream();
    return;
  }
  done_ = true;
  setup_.exchange->Respond(Named(JsonResponse(std::move(last))));
}

void OpenAiCall::Fail(const Status& status, std::string_view param, std::string_view code) {
  const RetryingAllocation retrying;
  done_ = true;
  if (!streaming_) {
    setup_.exchange->Respond(Named(OpenAiError(status, param, code)));
    return;
  }
  std::string event = "data: " + OpenAiErrorJson(HttpStatusOf(status), status.message());
  event.append("\n\n").append(kDoneEvent);
  (void)setup_.exchange->SendPart(event);
  setup_.exchange->EndStream();
}

void OpenAiCall::SendEvents(std::string_view events) {
  if (!streaming_) {
    const RetryingAllocation retrying;
    streaming_ = true;
    HttpResponse head;
    head.content_type = "text/event-stream; charset=utf-8";
    head.headers.emplace_back("Cache-Control", "no-cache");
    setup_.exchange->BeginStream(Named(std::move(head)));
  }
  if (events.empty()) return;
  const HttpExchange::PartResult result = setup_.exchange->SendPart(events);
  if (result == HttpExchange::PartResult::kTaken) return;
  if (result == HttpExchange::PartResult::kFull) {
    BRAID_LOG_WARNING(log_, "request cancelled: the client does not read, and {} MiB of events are waiting",
                      HttpExchange::kMaxWaitingBytes >> 20);
  }
  done_ = true;
  setup_.exchange->EndStream();
  CancelRun();
}

HttpResponse OpenAiCall::Named(HttpResponse response) const {
  response.headers.emplace_back(kRequestIdHeader, request_id_);
  return response;
}

void OpenAiCall::CancelRun() { cancellation_->Cancel(); }

void OpenAiCall::RecordTime() {
  const int64_t now_ns = SteadyNowNs();
  const bool first = last_event_ns_ == 0;
  servable_->statistics().RecordToken(first, now_ns - (first ? received_ns_ : last_event_ns_));
  last_event_ns_ = now_ns;
}

}  // namespace braid
