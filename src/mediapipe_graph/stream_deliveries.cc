#include "mediapipe_graph/stream_deliveries.h"

#include "base/guard.h"

namespace braid {

void StreamDeliveries::Respond(InferenceResponse response, std::string request_id) {
  Add(Response{std::move(response), std::move(request_id)});
}

void StreamDeliveries::WantsInput() { Add(InputWanted{}); }

void StreamDeliveries::End(Status status, std::function<void()> before) {
  Add(TheEnd{std::move(status), std::move(before)});
}

void StreamDeliveries::Release() {
  MutexLock lock(mutex_);
  if (released_) return;
  released_ = true;
  Deliver();
}

void StreamDeliveries::Add(Delivery delivery) {
  MutexLock lock(mutex_);
  if (ended_) return;
  const bool end = std::holds_alternative<TheEnd>(delivery);
  {
    const RetryingAllocation retrying;
    waiting_.push_back(std::move(delivery));
  }
  ended_ = end;
  Deliver();
}

void StreamDeliveries::Deliver() {
  if (!released_) return;
  const SerialDelivery::Turn turn(delivery_);
  if (!turn) return;
  while (!waiting_.empty()) {
    Delivery next = std::move(waiting_.front());
    waiting_.pop_front();
    const MutexUnlock unlock(mutex_);
    // A delivery that the sink cannot take is dropped; the end still comes and has the error.
    const Status handed = Guarded([&] { Hand(next); });
    if (handed.ok()) continue;
    ReportFault("a graph's stream", handed);
    lost_ = handed;
  }
}

void StreamDeliveries::Hand(Delivery& delivery) {
  if (auto* one = std::get_if<Response>(&delivery)) {
    sink_.Respond(std::move(one->response), one->request_id);
  } else if (auto* end = std::get_if<TheEnd>(&delivery)) {
    end->before();
    sink_.End(end->status.ok() ? std::move(lost_) : std::move(end->status));
  } else {
    sink_.OnWantsInput();
  }
}

}  // namespace braid
