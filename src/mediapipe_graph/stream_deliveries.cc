#include "mediapipe_graph/stream_deliveries.h"

namespace braid {

void StreamDeliveries::Respond(InferenceResponse response, std::string request_id) {
  Add(Response{std::move(response), std::move(request_id)});
}

void StreamDeliveries::WantsInput() { Add(InputWanted{}); }

void StreamDeliveries::End(Status status, std::function<void()> before) {
  Add(TheEnd{std::move(status), std::move(before)});
}

void StreamDeliveries::Release() {
  std::unique_lock lock(mutex_);
  if (released_) return;
  released_ = true;
  Deliver(std::move(lock));
}

void StreamDeliveries::Add(Delivery delivery) {
  std::unique_lock lock(mutex_);
  waiting_.push_back(std::move(delivery));
  Deliver(std::move(lock));
}

void StreamDeliveries::Deliver(std::unique_lock<std::mutex> lock) {
  if (!released_ || delivering_) return;
  delivering_ = true;
  while (!waiting_.empty()) {
    Delivery next = std::move(waiting_.front());
    waiting_.pop_front();
    lock.unlock();
    Hand(next);
    lock.lock();
  }
  delivering_ = false;
}

void StreamDeliveries::Hand(Delivery& delivery) {
  if (auto* one = std::get_if<Response>(&delivery)) {
    sink_.Respond(std::move(one->response), one->request_id);
  } else if (auto* end = std::get_if<TheEnd>(&delivery)) {
    end->before();
    sink_.End(std::move(end->status));
  } else {
    sink_.OnWantsInput();
  }
}

}  // namespace braid
