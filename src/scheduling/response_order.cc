#include "scheduling/response_order.h"

#include "base/check.h"
#include "base/guard.h"

namespace braid {

ResponseOrder::~ResponseOrder() { BRAID_CHECK(places_.empty()); }

void ResponseOrder::Enter(InferenceRequest& request) {
  auto place = std::make_unique<Place>(shared_from_this(), request.sink);
  Place& entered = *place;
  std::lock_guard lock(mutex_);
  places_.push_back(std::move(place));
  request.sink = &entered;
}

void ResponseOrder::Place::Respond(std::optional<InferenceResponse> response, bool final) {
  const std::shared_ptr<ResponseOrder> order = order_;  // this place may end in Deliver()
  {
    const PatientAllocation patience;
    std::lock_guard lock(order->mutex_);
    events_.push_back({std::move(response), final});
  }
  order->Deliver();
}

void ResponseOrder::Deliver() {
  std::unique_lock lock(mutex_);
  if (delivering_) return;
  delivering_ = true;
  while (!places_.empty() && !places_.front()->events_.empty()) {
    Place& first = *places_.front();
    Event event = std::move(first.events_.front());
    first.events_.pop_front();
    ResponseSink* sink = first.sink_;
    std::unique_ptr<Place> ended;
    if (event.final) {
      ended = std::move(places_.front());
      places_.pop_front();
    }
    lock.unlock();
    sink->Respond(std::move(event.response), event.final);
    ended.reset();
    lock.lock();
  }
  delivering_ = false;
}

}  // namespace braid
