#include "protocols/kserve/grpc/graph_stream.h"

#include <utility>

#include "base/clock.h"
#include "base/guard.h"
#include "protocols/inference/request_headers.h"
#include "protocols/kserve/grpc/request_builder.h"
#include "protocols/kserve/grpc/response_writer.h"
#include "protocols/kserve/grpc/service.h"
#include "serving/faults.h"

namespace braid {
namespace {

constexpr ApiCall kApiCall{ApiProtocol::kKServe, ApiInterface::kGrpc, ApiMethod::kModelInferStream};
// Endings of errors about a message: the first one, a later one, or one that names another servable.
constexpr std::string_view kOfFirst = "; partial deserialization of first request";
constexpr std::string_view kOfSubsequent = "; partial deserialization of subsequent requests";
constexpr std::string_view kNotThisServable = "; validate subsequent requests";

// Graphs have one version.
bool IsVersionOfGraph(std::string_view version) {
  return version.empty() || version == "0" || version == "1";
}

}  // namespace

GrpcGraphStream::GrpcGraphStream(GrpcStreamCall& call) : call_(call), start_ns_(SteadyNowNs()) {}

Status GrpcGraphStream::Open(WireSegments segments, std::unique_ptr<ServableHandle> handle) {
  // The servable may end the conversation while this function runs.
  const std::shared_ptr<Servable> servable = handle->share();
  InferenceRequest request;
  name_ = call_.kserve_.parsed.model_name;
  Status fault = BuildMessage(segments, *servable, request);
  request.model_name = name_;
  request.servable = std::move(handle);
  {
    MutexLock lock(call_.mutex_);
    servable_ = servable;
    share_ = call_.self();
  }
  auto opened = servable->OpenStream(request, *this);
  if (!opened.ok()) {
    servable->api_counters().CountRefused(kApiCall);
    // `request` owns the handle and is destroyed before the client can see the error. So a client that then
    // unloads the servable does not wait for it.
    return opened.status();
  }
  {
    MutexLock lock(call_.mutex_);
    stream_ = *opened;
  }
  Take(**opened, *servable, request, std::move(fault), kOfFirst);
  return OkStatus();
}

void GrpcGraphStream::Detach() {
  MutexLock lock(call_.mutex_);
  if (stream_) return;
  stream_ended_ = true;
  servable_.reset();
  share_.reset();
}

void GrpcGraphStream::Handle(WireSegments segments) {
  std::shared_ptr<Servable> servable;
  std::shared_ptr<ServableStream> stream;
  {
    MutexLock lock(call_.mutex_);
    servable = servable_;
    stream = stream_;
  }
  if (!servable) return;
  InferenceRequest request;
  ParsedRequest& parsed = call_.kserve_.parsed;
  Status fault = ParseInferRequest(segments, parsed);
  request.id = parsed.id;
  std::string_view ending = kOfSubsequent;
  if (fault.ok()) {
    fault = CheckServable(parsed);
    if (!fault.ok()) ending = kNotThisServable;
  }
  if (fault.ok()) fault = BuildMessage(segments, *servable, request);
  Take(*stream, *servable, request, std::move(fault), ending);
}

Status GrpcGraphStream::CheckServable(const ParsedRequest& parsed) const {
  if (parsed.model_name != name_) return FaultError(Fault::kGraphIncorrectServableName);
  if (!IsVersionOfGraph(parsed.model_version)) return FaultError(Fault::kGraphIncorrectServableVersion);
  return OkStatus();
}

Status GrpcGraphStream::BuildMessage(WireSegments segments, Servable& servable, InferenceRequest& request) {
  request.api = kApiCall;
  // Unused: outputs are sent as the graph makes them.
  AnswerOptions answer;
  return call_.BuildRequest(segments, servable, request, answer);
}

void GrpcGraphStream::Take(ServableStream& stream, Servable& servable, InferenceRequest& request,
                           Status fault, std::string_view ending) {
  // The servable may move parts out of the request.
  const std::string id = request.id;
  if (fault.ok()) fault = stream.Push(request);
  servable.api_counters().CountRequest(kApiCall, fault.ok());
  if (!fault.ok()) {
    const RetryingAllocation retrying;
    fault = fault.WithMessage(std::string(fault.message()).append(ending));
    Send({EncodeStreamError(id, fault.message(), nullptr, true), fault});
  }
  uint64_t changes = 0;
  {
    MutexLock lock(call_.mutex_);
    changes = wants_changes_;
  }
  const bool wants_input = stream.wants_input();
  MutexLock lock(call_.mutex_);
  if (changes == wants_changes_) wants_input_ = wants_input;
}

void GrpcGraphStream::Send(GrpcStreamCall::Outgoing outgoing) {
  const RetryingAllocation retrying;
  GrpcStreamCall::Next next;
  {
    MutexLock lock(call_.mutex_);
    if (!call_.ended_ && !call_.CutOffLocked(next)) call_.PushLocked(std::move(outgoing));
    call_.AdvanceLocked(next);
  }
  call_.Run(next);
}

void GrpcGraphStream::Respond(InferenceResponse response, const std::string& request_id) {
  {
    MutexLock lock(call_.mutex_);
    // The client can no longer receive it, so it is not encoded.
    if (call_.ended_) return;
    // The servable does not end the conversation during this call.
    servable_->api_counters().CountResponse(kApiCall);
    if (!std::exchange(responded_, true)) {
      servable_->statistics().RecordGraphLatency(kApiCall.method, SteadyNowNs() - start_ns_);
    }
  }
  const Status fault = Guarded([&] {
    Send({response.status.ok() ? EncodeStreamResponse(request_id, response, std::nullopt)
                               : EncodeStreamError(request_id, response.status.message(), nullptr, true),
          OkStatus()});
  });
  if (!fault.ok()) call_.EndWithFault(fault);
}

void GrpcGraphStream::OnWantsInput() {
  {
    MutexLock lock(call_.mutex_);
    wants_input_ = true;
    ++wants_changes_;
  }
  call_.Advance();
}

void GrpcGraphStream::End(Status status) {
  const RetryingAllocation retrying;
  std::shared_ptr<Servable> servable;
  std::shared_ptr<GrpcStreamCall> share;
  {
    MutexLock lock(call_.mutex_);
    servable = std::move(servable_);
    share = std::move(share_);
    stream_ended_ = true;
    servable->api_counters().Count(kApiCall, status.ok());
    const bool cut_short = status.ok() && call_.draining_ && !call_.half_closed_;
    call_.EndLocked(cut_short ? UnavailableError("Server exiting") : status);
  }
  call_.Advance();
}

bool GrpcGraphStream::WantsMessageLocked(const GrpcCall::Waiting& waiting, GrpcStreamCall::Next& next) {
  // The thread-safety analysis does not know that the caller is `call_`.
  call_.mutex_.AssertHeld();
  if (waiting.bytes > kPauseBytes || waiting.messages > kPauseMessages) {
    pause_ = true;
  } else if (waiting.bytes <= kPauseBytes / 2 && waiting.messages <= kPauseMessages / 2) {
    pause_ = false;
  }
  next.notify = pause_;
  next.most = {kPauseMessages / 2, kPauseBytes / 2};
  return stream_ && !call_.draining_ && wants_input_ && !pause_;
}

void GrpcGraphStream::Tell() {
  // A notification may end the conversation and release its share of the call.
  const std::shared_ptr<GrpcStreamCall> share = call_.self();
  MutexLock lock(call_.mutex_);
  if (!stream_) return;
  const SerialDelivery::Turn turn(delivery_);
  if (!turn) return;
  const std::shared_ptr<ServableStream> stream = stream_;
  while (!stream_ended_) {
    if (call_.ended_ && !told_cancel_) {
      told_cancel_ = true;
      lock.Unlock();
      stream->Cancel();
    } else if ((call_.half_closed_ || call_.draining_) && !call_.handling_ && !told_close_) {
      told_close_ = true;
      lock.Unlock();
      stream->CloseInputs();
    } else if (const bool pause = pause_ && !call_.ended_; pause != told_pause_) {
      told_pause_ = pause;
      lock.Unlock();
      stream->SetPaused(pause);
    } else {
      break;
    }
    lock.Lock();
  }
}

}  // namespace braid
