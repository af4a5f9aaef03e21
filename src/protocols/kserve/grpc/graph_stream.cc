#include "protocols/kserve/grpc/graph_stream.h"

#include <utility>

#include "base/clock.h"
#include "base/guard.h"
#include "protocols/grpc/status.h"
#include "protocols/inference/request_headers.h"
#include "protocols/kserve/grpc/request_builder.h"
#include "protocols/kserve/grpc/response_writer.h"
#include "serving/ovms_status.h"

namespace braid {
namespace {

constexpr ApiCall kApiCall{ApiProtocol::kKServe, ApiInterface::kGrpc, ApiMethod::kModelInferStream};
constexpr std::string_view kOfFirst = "; partial deserialization of first request";
constexpr std::string_view kOfSubsequent = "; partial deserialization of subsequent requests";
constexpr std::string_view kNotThisServable = "; validate subsequent requests";

// The same fault with `what` behind its text.
Status WithSuffix(const Status& status, std::string_view what) {
  return {status.code(), std::string(status.message()).append(what)};
}

// Graphs have one version.
bool IsVersionOfGraph(std::string_view version) {
  return version.empty() || version == "0" || version == "1";
}

}  // namespace

GrpcGraphStream::GrpcGraphStream(Setup setup)
    : kserve_(setup.kserve),
      queue_(setup.kserve.queue),
      context_(setup.context),
      forwarded_(setup.forwarded),
      grpc_errors_(setup.grpc_errors),
      ended_(std::move(setup.ended)),
      start_ns_(SteadyNowNs()),
      traffic_(
          {setup.call, message_, read_event_, written_event_, finished_event_, setup.kserve.context().log}),
      draining_(setup.draining) {}

void GrpcGraphStream::Begin(WireSegments segments, std::unique_ptr<ServableHandle> handle) {
  const Status fault = Guarded([&] { Open(segments, std::move(handle)); });
  {
    std::lock_guard lock(mutex_);
    handling_ = false;
    if (!fault.ok() && !stream_) {
      self_.reset();
      servable_.reset();
      stream_ended_ = true;
    }
  }
  if (fault.ok()) {
    Advance();
  } else {
    EndWithFault(fault);
  }
}

void GrpcGraphStream::Open(WireSegments segments, std::unique_ptr<ServableHandle> handle) {
  // The servable may end the conversation before this thread is done with it.
  const std::shared_ptr<Servable> servable = handle->share();
  InferenceRequest request;
  name_ = kserve_.parsed.model_name;
  Status fault = BuildMessage(segments, *servable, request);
  if (!fault.ok()) fault = WithSuffix(fault, kOfFirst);
  queue_.ForgetMessage();
  request.model_name = name_;
  request.servable = std::move(handle);
  {
    std::lock_guard lock(mutex_);
    self_ = shared_from_this();
    servable_ = servable;
  }
  auto opened = servable->OpenStream(request, *this);
  if (opened.ok()) {
    {
      std::lock_guard lock(mutex_);
      stream_ = *opened;
    }
    Take(**opened, *servable, request, std::move(fault));
  } else {
    servable->api_counters().CountRefused(kApiCall);
    // Before the client can hear of it, so that one which then unloads the servable never waits for us.
    request.servable.reset();
    std::lock_guard lock(mutex_);
    self_.reset();
    servable_.reset();
    stream_ended_ = true;
    traffic_.End(ToGrpcStatus(opened.status()));
  }
}

void GrpcGraphStream::OnRead(bool ok) {
  {
    std::lock_guard lock(mutex_);
    traffic_.OnRead(ok);
    handling_ = ok && !traffic_.ended() && !draining_;
    ok = handling_;
  }
  if (ok) {
    if (const Status fault = Guarded([this] { HandleMessage(); }); !fault.ok()) EndWithFault(fault);
  }
  message_.Clear();
  {
    std::lock_guard lock(mutex_);
    handling_ = false;
  }
  Advance();
  OperationEnded();
}

void GrpcGraphStream::HandleMessage() {
  std::shared_ptr<Servable> servable;
  std::shared_ptr<ServableStream> stream;
  {
    std::lock_guard lock(mutex_);
    servable = servable_;
    stream = stream_;
  }
  if (!servable) return;
  const WireSegments segments = queue_.Spread(message_);
  InferenceRequest request;
  Status fault = ReadMessage(segments, *servable, request);
  queue_.ForgetMessage();
  message_.Clear();
  Take(*stream, *servable, request, std::move(fault));
}

Status GrpcGraphStream::ReadMessage(WireSegments segments, Servable& servable, InferenceRequest& request) {
  ParsedRequest& parsed = kserve_.parsed;
  Status read = ParseInferRequest(segments, parsed);
  request.id = parsed.id;
  if (read.ok() && parsed.model_name != name_) {
    return WithSuffix(OvmsError(OvmsCode::kGraphIncorrectServableName), kNotThisServable);
  }
  if (read.ok() && !IsVersionOfGraph(parsed.model_version)) {
    return WithSuffix(OvmsError(OvmsCode::kGraphIncorrectServableVersion), kNotThisServable);
  }
  if (read.ok()) read = BuildMessage(segments, servable, request);
  return read.ok() ? read : WithSuffix(read, kOfSubsequent);
}

Status GrpcGraphStream::BuildMessage(WireSegments segments, Servable& servable, InferenceRequest& request) {
  request.api = kApiCall;
  // Of no interest: outputs leave as the graph makes them.
  AnswerOptions answer;
  BRAID_ASSIGN_OR_RETURN(const std::string_view sequence, SequenceHeader(servable.info(), context_));
  return BuildInferenceRequest(segments, kserve_.parsed, servable, {forwarded_, sequence},
                               *kserve_.context().client_memory, request, answer);
}

void GrpcGraphStream::Take(ServableStream& stream, Servable& servable, InferenceRequest& request,
                           Status fault) {
  // The servable may take the request apart.
  const std::string id = request.id;
  if (fault.ok()) fault = stream.Push(request);
  servable.api_counters().CountRequest(kApiCall, fault.ok());
  if (!fault.ok()) Refuse(fault, id);
  uint64_t changes = 0;
  {
    std::lock_guard lock(mutex_);
    changes = wants_changes_;
  }
  const bool wants_input = stream.wants_input();
  std::lock_guard lock(mutex_);
  if (changes == wants_changes_) wants_input_ = wants_input;
}

void GrpcGraphStream::Refuse(const Status& status, const std::string& id) {
  const PatientAllocation patience;
  EncodedMessage message = EncodeStreamError(id, status.message(), nullptr, true);
  Claims claims;
  {
    std::lock_guard lock(mutex_);
    if (grpc_errors_) {
      traffic_.End(ToGrpcStatus(status));
    } else {
      PushLocked(std::move(message), claims);
    }
    AdvanceLocked(claims);
  }
  Run(claims);
}

void GrpcGraphStream::Respond(InferenceResponse response, const std::string& request_id) {
  {
    std::lock_guard lock(mutex_);
    // Nobody sees it, so it need not be made.
    if (traffic_.ended()) return;
    // The servable does not end the conversation while it is in here.
    servable_->api_counters().CountResponse(kApiCall);
    if (!std::exchange(responded_, true)) {
      servable_->statistics().RecordGraphLatency(kApiCall.method, SteadyNowNs() - start_ns_);
    }
  }
  const Status fault = Guarded([&] {
    EncodedMessage message = response.status.ok()
                                 ? EncodeStreamResponse(request_id, response, std::nullopt)
                                 : EncodeStreamError(request_id, response.status.message(), nullptr, true);
    Claims claims;
    {
      std::lock_guard lock(mutex_);
      PushLocked(std::move(message), claims);
      AdvanceLocked(claims);
    }
    Run(claims);
  });
  if (!fault.ok()) EndWithFault(fault);
}

void GrpcGraphStream::EndWithFault(const Status& status) noexcept {
  const PatientAllocation patience;
  {
    std::lock_guard lock(mutex_);
    traffic_.End(ToGrpcStatus(status));
  }
  GuardedOrReport("gRPC stream", [this] { Advance(); });
}

void GrpcGraphStream::OnWantsInput() {
  {
    std::lock_guard lock(mutex_);
    wants_input_ = true;
    ++wants_changes_;
  }
  Advance();
}

void GrpcGraphStream::End(Status status) {
  const PatientAllocation patience;
  std::shared_ptr<GrpcGraphStream> self;
  std::shared_ptr<Servable> servable;
  {
    std::lock_guard lock(mutex_);
    self = std::move(self_);
    servable = std::move(servable_);
    stream_ended_ = true;
    servable->api_counters().Count(kApiCall, status.ok());
    const bool cut_short = status.ok() && draining_ && !traffic_.half_closed();
    traffic_.End(cut_short ? grpc::Status(grpc::StatusCode::UNAVAILABLE, "Server exiting")
                           : ToGrpcStatus(status));
  }
  Advance();
}

void GrpcGraphStream::Drain() {
  {
    std::lock_guard lock(mutex_);
    draining_ = true;
  }
  Advance();
}

void GrpcGraphStream::PushLocked(EncodedMessage message, Claims& claims) {
  if (traffic_.open() && !traffic_.CutOff(claims)) traffic_.Push(std::move(message));
}

void GrpcGraphStream::AdvanceLocked(Claims& claims) {
  traffic_.ClaimWrite(claims);
  const size_t messages = traffic_.waiting();
  const size_t bytes = traffic_.waiting_bytes();
  if (bytes > kPauseBytes || messages > kPauseMessages) {
    pause_ = true;
  } else if (bytes <= kPauseBytes / 2 && messages <= kPauseMessages / 2) {
    pause_ = false;
  }
  traffic_.ClaimEnd(claims);
  if (stream_ && !handling_ && !draining_ && wants_input_ && !pause_) traffic_.ClaimRead(claims);
}

void GrpcGraphStream::Advance() {
  const PatientAllocation patience;
  Claims claims;
  {
    std::lock_guard lock(mutex_);
    AdvanceLocked(claims);
  }
  Run(claims);
}

void GrpcGraphStream::Run(const Claims& claims) {
  traffic_.Start(claims);
  Tell();
}

void GrpcGraphStream::Tell() {
  // The conversation may end within what it is told, and with it the servable's share in this.
  const std::shared_ptr<GrpcGraphStream> self = shared_from_this();
  std::unique_lock lock(mutex_);
  if (telling_ || !stream_) return;
  telling_ = true;
  const std::shared_ptr<ServableStream> stream = stream_;
  while (!stream_ended_) {
    if (traffic_.ended() && !told_cancel_) {
      told_cancel_ = true;
      lock.unlock();
      stream->Cancel();
    } else if ((traffic_.half_closed() || draining_) && !handling_ && !told_close_) {
      told_close_ = true;
      lock.unlock();
      stream->CloseInputs();
    } else if (const bool pause = pause_ && !traffic_.ended(); pause != told_pause_) {
      told_pause_ = pause;
      lock.unlock();
      stream->SetPaused(pause);
    } else {
      break;
    }
    lock.lock();
  }
  telling_ = false;
}

void GrpcGraphStream::OnWritten(bool ok) {
  {
    std::lock_guard lock(mutex_);
    traffic_.OnWritten(ok);
  }
  Advance();
  OperationEnded();
}

void GrpcGraphStream::OnFinished(bool) { OperationEnded(); }

void GrpcGraphStream::OnDone() {
  {
    std::lock_guard lock(mutex_);
    traffic_.OnDone();
  }
  Advance();
  OperationEnded();
}

void GrpcGraphStream::OperationEnded() {
  // What follows lets go of the call's share in this.
  const std::shared_ptr<GrpcGraphStream> self = shared_from_this();
  {
    std::lock_guard lock(mutex_);
    if (!traffic_.OperationEnded()) return;
  }
  ended_();
}

}  // namespace braid
