#include "protocols/http/awaiting_call.h"

#include <algorithm>
#include <cstring>

#include "base/clock.h"
#include "base/guard.h"

namespace braid {

bool AwaitingCall::Loads(const HttpRoute& route) {
  if (route.kind != HttpRouteKind::kUsual) return false;
  return route.api == Api::kInference || route.api == Api::kMetadata || route.api == Api::kModelConfig;
}

std::optional<HttpResponse> AwaitingCall::OnFront(std::string_view front, size_t,
                                                  std::vector<std::span<std::byte>>&) {
  size_ = front.size();
  body_.reserve(size_ + kFrontPadding);
  body_ = front;
  body_.append(kFrontPadding, '\0');
  charge_ = MemoryCharge(body_.capacity());
  return std::nullopt;
}

void AwaitingCall::OnBody() {
  since_ns_ = SteadyNowNs();
  exchange_->SetCancellation(cancellation_);
  Load();
}

void AwaitingCall::Load() {
  loader_.Load(*match_.model, since_ns_, [self = shared_from_this()](const Status& loaded) {
    const RetryingAllocation retrying;  // the client waits for this
    self->exchange_->RunOnIoThread([self, loaded] { self->OnLoaded(loaded); });
  });
}

void AwaitingCall::OnLoaded(const Status& loaded) {
  Status fault = loaded;
  if (fault.ok() && cancellation_->cancelled()) fault = CancelledError("the client has gone");
  if (fault.ok()) {
    fault = Guarded([&]() -> Status {
      BRAID_ASSIGN_OR_RETURN(const bool again, Answer());
      if (again) Load();
      return OkStatus();
    });
  }
  if (!fault.ok()) exchange_->Respond(MakeResponse([&] { return Result<HttpResponse>(fault); }));
}

Result<bool> AwaitingCall::Answer() {
  HttpRequest request(host_, exchange_, match_);
  HttpService::Answer answer = match_.route->answer(protocol_, request);
  if (auto* call = std::get_if<std::shared_ptr<HttpCall>>(&answer)) {
    BRAID_RETURN_IF_ERROR(Begin(std::move(*call)));
    return false;
  }
  auto& response = std::get<HttpResponse>(answer);
  if (response.status >= 400 && loader_.Awaits(*match_.model, match_.version)) return true;
  exchange_->Respond(std::move(response));
  return false;
}

Status AwaitingCall::Begin(std::shared_ptr<HttpCall> call) {
  call_ = std::move(call);
  const size_t front = std::min(call_->front_bytes(), size_);
  const size_t rest = size_ - front;
  std::vector<std::span<std::byte>> destinations;
  if (auto refused = call_->OnFront(std::string_view(body_).substr(0, front), rest, destinations)) {
    exchange_->Respond(std::move(*refused));
    return OkStatus();
  }
  const char* from = body_.data() + front;
  for (const std::span<std::byte> destination : destinations) {
    if (!destination.empty()) std::memcpy(destination.data(), from, destination.size());
    from += destination.size();
  }
  FreeText(body_);
  charge_ = MemoryCharge();
  call_->OnBody();
  return OkStatus();
}

}  // namespace braid
