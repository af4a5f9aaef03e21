#include "protocols/kserve/grpc_graph_stream.h"

#include <utility>

#include "base/clock.h"
#include "base/log.h"
#include "protocols/kserve/grpc_request_builder.h"
#include "protocols/kserve/grpc_response_writer.h"
#include "protocols/kserve/grpc_status.h"
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
    : queue_(setup.queue),
      call_(setup.call),
      context_(setup.context),
      forwarded_(setup.forwarded),
      grpc_errors_(setup.grpc_errors),
      ended_(std::move(setup.ended)),
      log_(setup.queue.state().context.log),
      start_ns_(SteadyNowNs()),
      draining_(setup.draining) {}

void GrpcGraphStream::Begin(std::unique_ptr<ServableHandle> handle) {
  // The servable may end the conversation before this thread is done with it.
  const std::shared_ptr<Servable> servable = handle->share();
  InferenceRequest request;
  name_ = queue_.scratch().parsed.model_name;
  Status fault = BuildMessage(*servable, request);
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
    EndLocked(ToGrpcStatus(opened.status()));
  }
  {
    std::lock_guard lock(mutex_);
    handling_ = false;
  }
  Advance();
}

void GrpcGraphStream::OnRead(bool ok) {
  {
    std::lock_guard lock(mutex_);
    reading_ = false;
    if (!ok) half_closed_ = true;
    handling_ = ok && !dead_ && !end_ && !draining_;
    ok = handling_;
  }
  if (ok) HandleMessage();
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
  queue_.Spread(message_);
  InferenceRequest request;
  Status fault = ReadMessage(*servable, request);
  queue_.ForgetMessage();
  message_.Clear();
  Take(*stream, *servable, request, std::move(fault));
}

Status GrpcGraphStream::ReadMessage(Servable& servable, InferenceRequest& request) {
  ParsedRequest& parsed = queue_.scratch().parsed;
  Status read = ParseInferRequest(queue_.scratch().segments, parsed);
  request.id = parsed.id;
  if (read.ok() && parsed.model_name != name_) {
    return WithSuffix(OvmsError(OvmsCode::kGraphIncorrectServableName), kNotThisServable);
  }
  if (read.ok() && !IsVersionOfGraph(parsed.model_version)) {
    return WithSuffix(OvmsError(OvmsCode::kGraphIncorrectServableVersion), kNotThisServable);
  }
  if (read.ok()) read = BuildMessage(servable, request);
  return read.ok() ? read : WithSuffix(read, kOfSubsequent);
}

Status GrpcGraphStream::BuildMessage(Servable& servable, InferenceRequest& request) {
  GrpcQueue::Scratch& scratch = queue_.scratch();
  request.api = kApiCall;
  // Of no interest: outputs leave as the graph makes them.
  AnswerOptions answer;
  BRAID_ASSIGN_OR_RETURN(const std::string_view sequence,
                         GrpcMetadataRules::SequenceHeader(servable.info(), context_));
  return BuildInferenceRequest(scratch.segments, scratch.parsed, servable, {forwarded_, sequence},
                               *queue_.state().context.client_memory, request, answer);
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
  EncodedMessage message = EncodeStreamError(id, status.message(), nullptr, true);
  Next next;
  {
    std::lock_guard lock(mutex_);
    if (grpc_errors_) {
      EndLocked(ToGrpcStatus(status));
    } else {
      PushLocked(std::move(message), next);
    }
    AdvanceLocked(next);
  }
  Run(next);
}

void GrpcGraphStream::Respond(InferenceResponse response, const std::string& request_id) {
  {
    std::lock_guard lock(mutex_);
    // Nobody sees it, so it need not be made.
    if (dead_ || end_) return;
    // The servable does not end the conversation while it is in here.
    servable_->api_counters().CountResponse(kApiCall);
    if (!std::exchange(responded_, true)) {
      servable_->statistics().RecordGraphLatency(kApiCall.method, SteadyNowNs() - start_ns_);
    }
  }
  EncodedMessage message = response.status.ok()
                               ? EncodeStreamResponse(request_id, response, std::nullopt)
                               : EncodeStreamError(request_id, response.status.message(), nullptr, true);
  Next next;
  {
    std::lock_guard lock(mutex_);
    PushLocked(std::move(message), next);
    AdvanceLocked(next);
  }
  Run(next);
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
  std::shared_ptr<GrpcGraphStream> self;
  std::shared_ptr<Servable> servable;
  {
    std::lock_guard lock(mutex_);
    self = std::move(self_);
    servable = std::move(servable_);
    stream_ended_ = true;
    servable->api_counters().Count(kApiCall, status.ok());
    const bool cut_short = status.ok() && draining_ && !half_closed_;
    EndLocked(cut_short ? grpc::Status(grpc::StatusCode::UNAVAILABLE, "Server exiting")
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

void GrpcGraphStream::PushLocked(EncodedMessage message, Next& next) {
  if (dead_ || end_) return;
  if (waiting_bytes_ > kMaxWaitingBytes) {
    waiting_.clear();
    waiting_bytes_ = 0;
    EndLocked({grpc::StatusCode::UNAVAILABLE, "the client does not read the responses of the stream"});
    next.cut_off = true;
    return;
  }
  waiting_bytes_ += message.size;
  waiting_.push_back(std::move(message));
}

void GrpcGraphStream::EndLocked(grpc::Status status) {
  if (!end_) end_ = std::move(status);
}

void GrpcGraphStream::DieLocked() {
  dead_ = true;
  waiting_.clear();
  waiting_bytes_ = 0;
}

void GrpcGraphStream::AdvanceLocked(Next& next) {
  if (dead_ || finishing_) return;
  if (!writing_ && !waiting_.empty()) {
    writing_ = true;
    ++operations_;
    next.write = true;
    next.message = std::move(waiting_.front());
    waiting_.pop_front();
    waiting_bytes_ -= next.message.size;
    // gRPC keeps a message with the hint until one without it, or 64 KiB, follow. It would keep the first
    // one's headers too, and then never say that they are written.
    next.more = head_sent_ && !waiting_.empty();
  }
  if (waiting_bytes_ > kPauseBytes || waiting_.size() > kPauseMessages) {
    pause_ = true;
  } else if (waiting_bytes_ <= kPauseBytes / 2 && waiting_.size() <= kPauseMessages / 2) {
    pause_ = false;
  }
  if (end_) {
    if (writing_ || !waiting_.empty()) return;
    finishing_ = true;
    ++operations_;
    next.finish = true;
    next.status = *end_;
    return;
  }
  if (stream_ && !reading_ && !handling_ && !half_closed_ && !draining_ && wants_input_ && !pause_) {
    reading_ = true;
    ++operations_;
    next.read = true;
  }
}

void GrpcGraphStream::Advance() {
  Next next;
  {
    std::lock_guard lock(mutex_);
    AdvanceLocked(next);
  }
  Run(next);
}

void GrpcGraphStream::Run(Next& next) {
  // The operations claimed keep gRPC's side alive until their events have come.
  if (next.cut_off) {
    BRAID_LOG_WARNING(
        log_,
        "a ModelStreamInfer stream was ended: its client does not read, and {} MiB of responses "
        "wait for it",
        kMaxWaitingBytes >> 20);
  }
  if (next.read) call_.Read(&message_, static_cast<GrpcEvent*>(&read_event_));
  if (next.write) {
    grpc::WriteOptions options;
    if (next.more) options.set_buffer_hint();
    call_.Write(next.message.bytes, options, static_cast<GrpcEvent*>(&written_event_));
  }
  if (next.finish) call_.Finish(next.status, static_cast<GrpcEvent*>(&finished_event_));
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
    if ((dead_ || end_) && !told_cancel_) {
      told_cancel_ = true;
      lock.unlock();
      stream->Cancel();
    } else if ((half_closed_ || draining_) && !handling_ && !told_close_) {
      told_close_ = true;
      lock.unlock();
      stream->CloseInputs();
    } else if (const bool pause = pause_ && !dead_ && !end_; pause != told_pause_) {
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
  Next next;
  {
    std::lock_guard lock(mutex_);
    writing_ = false;
    head_sent_ = true;
    if (!ok) DieLocked();
    AdvanceLocked(next);
  }
  Run(next);
  OperationEnded();
}

void GrpcGraphStream::OnFinished(bool) { OperationEnded(); }

void GrpcGraphStream::OnDone() {
  {
    std::lock_guard lock(mutex_);
    done_ = true;
    // Without a finish of ours the client, or its connection, has gone. With one there is nothing left to
    // send either.
    DieLocked();
    ++operations_;  // this event, so that there is one place where gRPC's side ends
  }
  Advance();
  OperationEnded();
}

void GrpcGraphStream::OperationEnded() {
  // What follows lets go of the call's share in this.
  const std::shared_ptr<GrpcGraphStream> self = shared_from_this();
  {
    std::lock_guard lock(mutex_);
    if (--operations_ > 0 || !done_) return;
  }
  ended_();
}

}  // namespace braid
