#include "protocols/grpc/call.h"

#include <algorithm>
#include <cstring>

#include "base/guard.h"
#include "base/utf8.h"
#include "protocols/grpc/status.h"
#include "protocols/grpc/thread.h"

namespace braid {
namespace {

// Messages up to this size are joined if they arrive in several pieces.
constexpr size_t kGatheredBytes = size_t{64} << 10;
// A compressed message up to this size is inflated on the I/O thread: it becomes at most 1 MiB.
constexpr size_t kInflatedHere = 1024;
// The bytes of a message that must arrive between two checks.
constexpr size_t kLeastProgress = size_t{64} << 10;
// Pieces of larger messages below this size are copied, so that they do not keep the rest of their block.
constexpr size_t kReferencedPiece = 4096;

// Returns `bytes`, which lie in `block`, as a part of it.
Buffer Part(const Buffer& block, std::string_view bytes) {
  return block.Slice(static_cast<size_t>(bytes.data() - block.text().data()), bytes.size());
}

}  // namespace

GrpcCall::GrpcCall(Setup setup)
    : connection_(std::move(setup.connection)),
      stream_(setup.stream),
      head_(std::move(setup.head)),
      authorization_(std::move(setup.authorization)) {}

GrpcCall::~GrpcCall() = default;

GrpcThread& GrpcCall::thread() const { return connection_->thread(); }

Refusals& GrpcCall::refusals() const { return thread().state().limits->refusals; }

// --- Input -----------------------------------------------------------------------------------------

void GrpcCall::OnData(const Buffer& block, std::string_view bytes) {
  connection_->mutex().AssertHeld();
  connection_->NoteReceivedLocked();
  const Status fault = Guarded([&] {
    connection_->mutex().AssertHeld();
    if (refused_ || (requested_ > 0 && ready_.empty())) {
      connection_->session().Consume(stream_, bytes.size());
    } else {
      unconsumed_ += bytes.size();
    }
    while (!bytes.empty() && !refused_) {
      if (in_.prefix_have < sizeof(in_.prefix)) {
        TakePrefixLocked(bytes);
      } else {
        TakeBodyLocked(block, bytes);
      }
    }
    if (in_.prefix_have > 0) connection_->WatchMessages();
  });
  if (fault.ok()) return;
  // Bytes are missing, so further input does not continue the message.
  const RetryingAllocation retrying;
  CutLocked(GrpcCodeOf(fault), fault.message());
}

bool GrpcCall::CheckMessage() {
  connection_->mutex().AssertHeld();
  if (in_.prefix_have == 0) return false;
  if (in_.seen && in_.recent < kLeastProgress) {
    refusals().Count(Limit::kBodyTime, "a message arrives too slowly");
    CutLocked(kGrpcDeadlineExceeded, "the request message arrives too slowly (--request-body-timeout-ms)");
    return false;
  }
  in_.seen = true;
  in_.recent = 0;
  return true;
}

void GrpcCall::TakePrefixLocked(std::string_view& bytes) {
  const size_t part = std::min(bytes.size(), sizeof(in_.prefix) - in_.prefix_have);
  std::memcpy(in_.prefix + in_.prefix_have, bytes.data(), part);
  in_.prefix_have += part;
  bytes.remove_prefix(part);
  if (in_.prefix_have < sizeof(in_.prefix)) return;
  in_.left = size_t{in_.prefix[1]} << 24 | size_t{in_.prefix[2]} << 16 | size_t{in_.prefix[3]} << 8 |
             size_t{in_.prefix[4]};
  const size_t most = connection_->thread().state().max_input_bytes;
  if (in_.left > most) {
    const std::string text = "Received message larger than max (" + std::to_string(in_.left) + " vs. " +
                             std::to_string(most) + "). Use --grpc-max-input-size to increase the limit.";
    refusals().Count(Limit::kGrpcMessage, text);
    too_large_ = true;
    CutLocked(kGrpcResourceExhausted, text);
  } else if (in_.left == 0) {
    CompleteMessageLocked();
  }
}

void GrpcCall::TakeBodyLocked(const Buffer& block, std::string_view& bytes) {
  const std::string_view part = bytes.substr(0, in_.left);
  bytes.remove_prefix(part.size());
  const bool whole = in_.have == 0 && in_.message.size() == 0 && part.size() == in_.left;
  if (whole || (in_.left + in_.message.size() > kGatheredBytes && in_.gathered.empty())) {
    in_.message.Add(part.size() < kReferencedPiece && !whole
                        ? CopyToHeap(std::as_bytes(std::span(part.data(), part.size())))
                        : Part(block, part));
  } else {
    if (in_.gathered.empty()) in_.gathered = HeapBuffer(in_.left);
    std::memcpy(in_.gathered.mutable_data() + in_.have, part.data(), part.size());
    in_.have += part.size();
  }
  in_.left -= part.size();
  in_.recent += part.size();
  if (in_.left == 0) {
    CompleteMessageLocked();
  } else if (in_.gathered.empty()) {
    const Status room = connection_->thread().state().limits->budget.Continue();
    if (!room.ok()) CutLocked(kGrpcResourceExhausted, room.message());
  }
}

void GrpcCall::CompleteMessageLocked() {
  in_.message.Add(std::move(in_.gathered));
  in_.message.compressed = (in_.prefix[0] & 1) != 0;
  if (requested_ > 0 && ready_.empty()) {
    --requested_;
    connection_->AddEventLocked(shared_from_this(), GrpcEvent::kMessage, std::move(in_.message));
  } else {
    ready_.push_back(std::move(in_.message));
  }
  in_ = {};
}

void GrpcCall::DeliverLocked() {
  // A refused call receives only its end.
  if (refused_ || closed_) return;
  // The client may send as many bytes again as the call took, and all of a message that the call has
  // requested.
  size_t taken = 0;
  while (requested_ > 0 && !ready_.empty()) {
    --requested_;
    taken += sizeof(in_.prefix) + ready_.front().size();
    connection_->AddEventLocked(shared_from_this(), GrpcEvent::kMessage, std::move(ready_.front()));
    ready_.pop_front();
  }
  if (requested_ > 0 || taken > unconsumed_) taken = unconsumed_;
  if (taken > 0) connection_->session().Consume(stream_, taken);
  unconsumed_ -= taken;
  if (requested_ > 0 && half_closed_ && !half_close_told_) {
    half_close_told_ = true;
    connection_->AddEventLocked(shared_from_this(), GrpcEvent::kHalfClose);
  }
}

void GrpcCall::OnEnd() {
  connection_->mutex().AssertHeld();
  half_closed_ = true;
  if (in_.prefix_have > 0) CutLocked(kGrpcInternal, "incomplete request message");
  DeliverLocked();
}

void GrpcCall::RequestMessage() {
  connection_->Locked([this] {
    connection_->mutex().AssertHeld();
    ++requested_;
    DeliverLocked();
  });
  connection_->Flush();
}

// --- Output ----------------------------------------------------------------------------------------

size_t GrpcCall::sendable() const {
  connection_->mutex().AssertHeld();
  return out_bytes_;
}

bool GrpcCall::complete() const {
  connection_->mutex().AssertHeld();
  return finish_.has_value();
}

void GrpcCall::Take(size_t bytes, OutgoingBytes& to) {
  connection_->mutex().AssertHeld();
  connection_->NoteSentLocked();
  AddOutLocked(-static_cast<int64_t>(bytes));
  while (bytes > 0) {
    EncodedMessageReader& first = out_.front();
    const size_t part = std::min(bytes, first.left());
    first.Take(part, to);
    bytes -= part;
    if (first.left() == 0) out_.pop_front();
  }
  if (notify_ && IsAtMostLocked(*notify_)) {
    notify_.reset();
    connection_->AddEventLocked(shared_from_this(), GrpcEvent::kSent);
  }
}

void GrpcCall::AddOutLocked(int64_t bytes) {
  out_bytes_ += static_cast<size_t>(bytes);
  ChargeOutLocked();
}

void GrpcCall::ChargeOutLocked() {
  out_charge_.Set(static_cast<int64_t>(out_bytes_ + (finish_ ? finish_->message.size() : 0)));
}

void GrpcCall::AppendTrailers(boost::container::small_vector_base<Http2Field>& fields) {
  connection_->mutex().AssertHeld();
  fields.push_back({"grpc-status", finish_->code});
  if (!finish_->message.empty()) fields.push_back({"grpc-message", finish_->message});
  if (finish_->later) fields.push_back({kGrpcPushback, kGrpcPushbackMs});
}

bool GrpcCall::IsAtMostLocked(const Waiting& most) const {
  return out_.size() <= most.messages && out_bytes_ <= most.bytes;
}

void GrpcCall::NotifyWhenAtMost(Waiting most) {
  MutexLock lock(connection_->mutex());
  if (closed_) return;
  notify_.reset();
  if (IsAtMostLocked(most)) {
    connection_->AddEventLocked(shared_from_this(), GrpcEvent::kSent);
  } else {
    notify_ = most;
  }
}

GrpcCall::Waiting GrpcCall::waiting() const {
  MutexLock lock(connection_->mutex());
  return {out_.size(), out_bytes_};
}

void GrpcCall::SendLocked(EncodedMessage message) {
  if (closed_ || finish_) return;
  message.AddPrefix();
  AddOutLocked(static_cast<int64_t>(message.size));
  out_.emplace_back(std::move(message));
  StartLocked();
}

void GrpcCall::StartLocked() {
  if (started_) {
    connection_->session().Resume(stream_);
    return;
  }
  started_ = true;
  boost::container::small_vector<Http2Field, 4> head = {{":status", "200"},
                                                        {"content-type", "application/grpc"},
                                                        {"grpc-accept-encoding", "identity, deflate, gzip"}};
  if (coding_ != ContentCoding::kIdentity) head.push_back({"grpc-encoding", ContentCodingName(coding_)});
  connection_->session().Respond(stream_, {head.data(), head.size()});
}

void GrpcCall::FinishLocked(int code, std::string_view message) {
  if (closed_ || finish_) return;
  finish_ = End{std::to_string(code), PercentEncoded(message), code == kGrpcResourceExhausted && !too_large_};
  ChargeOutLocked();
  open_.store(false, std::memory_order_release);
  refused_ = true;
  if (started_) {
    StartLocked();
    return;
  }
  started_ = true;
  boost::container::small_vector<Http2Field, 8> head = {{":status", "200"},
                                                        {"content-type", "application/grpc"}};
  AppendTrailers(head);
  connection_->session().RespondAtOnce(stream_, {head.data(), head.size()});
}

void GrpcCall::Cut(int code, std::string_view message) {
  connection_->mutex().AssertHeld();
  CutLocked(code, message);
}

void GrpcCall::CutLocked(int code, std::string_view message) {
  if (finish_ || closed_) return;
  refused_ = true;
  ready_.clear();
  in_ = {};
  out_.clear();
  AddOutLocked(-static_cast<int64_t>(out_bytes_));
  FinishLocked(code, message);
  TellCancelledLocked();
}

void GrpcCall::TellCancelledLocked() {
  if (std::exchange(cancel_told_, true)) return;
  connection_->AddEventLocked(shared_from_this(), GrpcEvent::kCancelled);
}

void GrpcCall::EnableCompression() {
  if (thread().state().compression_level > 0)
    coding_ = ChooseContentCoding(head_.Find("grpc-accept-encoding"));
}

Result<GrpcMessage> GrpcCall::Unpack(const GrpcMessage& message) {
  const std::string_view encoding = head_.Find("grpc-encoding");
  const auto coding = ParseContentCoding(encoding);
  if (!coding) {
    return UnsupportedError("message encoding '" + Shortened(encoding) +
                            "' is not supported; expected identity, deflate or gzip");
  }
  if (*coding == ContentCoding::kIdentity) {
    return InternalError("a compressed message needs the header 'grpc-encoding'");
  }
  Result<GrpcMessage> inflated = Decompress(message, thread().state().max_input_bytes);
  if (inflated.status().code() == StatusCode::kResourceExhausted) {
    refusals().Count(Limit::kGrpcMessage, inflated.status().message());
    connection_->Locked([&] {
      connection_->mutex().AssertHeld();
      too_large_ = true;
    });
  }
  return inflated;
}

Status GrpcCall::Compress(EncodedMessage& message) const {
  if (coding_ == ContentCoding::kIdentity) return OkStatus();
  return message.CompressBy(coding_, thread().state().compression_level);
}

void GrpcCall::Push(EncodedMessage message) {
  if (const Status compressed = Compress(message); !compressed.ok()) {
    PushEnd(compressed);
    return;
  }
  connection_->Locked([&] {
    connection_->mutex().AssertHeld();
    SendLocked(std::move(message));
  });
}

void GrpcCall::PushEnd(const Status& status) {
  const RetryingAllocation retrying;  // the client waits for this
  connection_->Locked([&] {
    connection_->mutex().AssertHeld();
    FinishLocked(GrpcCodeOf(status), status.message());
  });
}

void GrpcCall::DropWaiting() {
  MutexLock lock(connection_->mutex());
  // A message that has begun to leave must be completed, or the client could not find the next one.
  while (out_.size() > 1) {
    AddOutLocked(-static_cast<int64_t>(out_.back().left()));
    out_.pop_back();
  }
}

void GrpcCall::Flush() { connection_->Flush(); }

void GrpcCall::Send(EncodedMessage message) {
  Push(std::move(message));
  Flush();
}

void GrpcCall::Finish(const Status& status) {
  PushEnd(status);
  Flush();
}

void GrpcCall::SendAndFinish(EncodedMessage message) {
  const Status compressed = Compress(message);
  connection_->Locked([&] {
    connection_->mutex().AssertHeld();
    if (compressed.ok()) SendLocked(std::move(message));
    FinishLocked(GrpcCodeOf(compressed), compressed.message());
  });
  connection_->Flush();
}

Status GrpcCall::DispatchMessage(GrpcMessage message) {
  if (message.compressed && message.size() > kInflatedHere) {
    InflateElsewhere(std::make_shared<GrpcMessage>(std::move(message)));
    return OkStatus();
  }
  if (message.compressed) {
    BRAID_ASSIGN_OR_RETURN(message, Unpack(message));
  }
  OnMessage(std::move(message));
  return OkStatus();
}

void GrpcCall::InflateElsewhere(std::shared_ptr<GrpcMessage> message) {
  const bool submitted = thread().state().inflating.Submit([self = shared_from_this(), message] {
    const Status fault = Guarded([&]() -> Status {
      BRAID_ASSIGN_OR_RETURN(*message, self->Unpack(*message));
      return OkStatus();
    });
    const RetryingAllocation retrying;  // the client waits for this
    if (!fault.ok()) {
      self->Finish(fault);
      return;
    }
    self->thread().loop().Post([self, message] {
      if (!self->over_) self->Dispatch(GrpcEvent::kMessage, std::move(*message));
    });
  });
  if (!submitted) Finish(UnavailableError("too many compressed messages are waiting"));
}

void GrpcCall::LoadOnDemand(const std::string& model, int64_t since_ns,
                            std::function<void(const Status&)> then) {
  thread().state().catalog.on_demand_loader()->Load(
      model, since_ns, [self = shared_from_this(), then = std::move(then)](const Status& loaded) {
        const RetryingAllocation retrying;  // the client waits for this
        self->thread().loop().Post([self, then, loaded] {
          if (self->over_) return;
          if (const Status fault = Guarded([&] { then(loaded); }); !fault.ok()) self->Finish(fault);
        });
      });
}

// --- Events ----------------------------------------------------------------------------------------

void GrpcCall::OnClosed(bool reset) {
  connection_->mutex().AssertHeld();
  closed_ = true;
  open_.store(false, std::memory_order_release);
  out_.clear();
  AddOutLocked(-static_cast<int64_t>(out_bytes_));
  if (unconsumed_ > 0) connection_->session().ConsumeConnection(unconsumed_);
  connection_->EndCallLocked(*this);
  if (reset) TellCancelledLocked();
}

void GrpcCall::Dispatch(GrpcEvent event, GrpcMessage message) {
  const Status fault = Guarded([&]() -> Status {
    switch (event) {
      case GrpcEvent::kMessage:
        return DispatchMessage(std::move(message));
      case GrpcEvent::kHalfClose:
        OnHalfClose();
        return OkStatus();
      case GrpcEvent::kSent:
        OnSent();
        return OkStatus();
      case GrpcEvent::kDrain:
        OnDrain();
        return OkStatus();
      case GrpcEvent::kCancelled:
        over_ = true;
        OnCancelled();
        return OkStatus();
    }
    return OkStatus();
  });
  if (!fault.ok()) Finish(fault);
}

}  // namespace braid
