#include "protocols/grpc/stream_traffic.h"

#include <utility>

#include "base/guard.h"

namespace braid {

void StreamTraffic::Start(const Setup& setup, const Claims& claims) {
  // What was claimed and not started would keep the call for ever.
  const PatientAllocation patience;
  if (claims.cut_off) {
    BRAID_LOG_WARNING(
        setup.log,
        "a ModelStreamInfer stream was ended: its client does not read, and {} MiB of responses "
        "wait for it",
        kMaxWaitingBytes >> 20);
  }
  if (claims.read) setup.call.Read(&setup.message, &setup.read);
  if (claims.write) {
    grpc::WriteOptions options;
    if (claims.more) options.set_buffer_hint();
    setup.call.Write(claims.message.bytes, options, &setup.written);
  }
  if (claims.finish) setup.call.Finish(claims.status, &setup.finished);
}

// --- What the owner wants

void StreamTraffic::Push(EncodedMessage message) {
  waiting_bytes_ += message.size;
  waiting_.push_back(std::move(message));
}

bool StreamTraffic::CutOff(Claims& claims) {
  if (waiting_bytes_ <= kMaxWaitingBytes) return false;
  DropWaiting();
  End({grpc::StatusCode::UNAVAILABLE, "the client does not read the responses of the stream"});
  claims.cut_off = true;
  return true;
}

void StreamTraffic::End(grpc::Status status) {
  if (!end_) end_ = std::move(status);
}

void StreamTraffic::ClaimRead(Claims& claims) {
  if (reading_ || half_closed_ || !open()) return;
  reading_ = true;
  ++operations_;
  claims.read = true;
}

void StreamTraffic::ClaimWrite(Claims& claims) {
  if (writing_ || waiting_.empty() || finishing_) return;
  writing_ = true;
  ++operations_;
  claims.write = true;
  claims.message = std::move(waiting_.front());
  waiting_.pop_front();
  waiting_bytes_ -= claims.message.size;
  // gRPC keeps a message with the hint until one without it, or 64 KiB, follow. It would keep the first one's
  // headers too, and then never say that they are written.
  claims.more = head_sent_ && !waiting_.empty();
}

void StreamTraffic::ClaimEnd(Claims& claims) {
  if (end_) ClaimFinish(*end_, claims);
}

void StreamTraffic::ClaimFinish(grpc::Status status, Claims& claims) {
  if (writing_ || !waiting_.empty() || finishing_ || dead_) return;
  finishing_ = true;
  ++operations_;
  claims.finish = true;
  claims.status = std::move(status);
}

// --- What gRPC says

void StreamTraffic::OnRead(bool ok) {
  reading_ = false;
  if (!ok) half_closed_ = true;
}

void StreamTraffic::OnWritten(bool ok) {
  writing_ = false;
  head_sent_ = true;
  if (!ok) Die();
}

void StreamTraffic::OnDone() {
  done_ = true;
  ++operations_;  // this event, so that there is one place where gRPC's side ends
  // Without a finish of ours the client, or its connection, has gone. With one there is nothing left to send
  // either.
  Die();
}

bool StreamTraffic::OperationEnded() { return --operations_ == 0 && done_; }

void StreamTraffic::Die() {
  dead_ = true;
  DropWaiting();
}

void StreamTraffic::DropWaiting() {
  waiting_.clear();
  waiting_bytes_ = 0;
}

}  // namespace braid
