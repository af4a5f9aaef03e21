#include "scheduling/response_order.h"

#include "base/check.h"
#include "base/guard.h"

namespace braid {

ResponseOrder::~ResponseOrder() { BRAID_CHECK(slots_.empty()); }

void ResponseOrder::Enter(InferenceRequest& request) {
  auto slot = std::make_unique<Slot>(shared_from_this(), request.sink);
  Slot& entered = *slot;
  MutexLock lock(mutex_);
  slots_.push_back(std::move(slot));
  request.sink = &entered;
}

void ResponseOrder::Slot::Respond(std::optional<InferenceResponse> response, bool final) {
  const std::shared_ptr<ResponseOrder> order = order_;  // Deliver() may destroy this slot
  {
    RetryingLock lock(order->mutex_);
    events_.push_back({std::move(response), final});
  }
  order->Deliver();
}

void ResponseOrder::Deliver() {
  MutexLock lock(mutex_);
  const SerialDelivery::Turn turn(delivery_);
  if (!turn) return;
  while (!slots_.empty() && !slots_.front()->events_.empty()) {
    Slot& first = *slots_.front();
    Event event = std::move(first.events_.front());
    first.events_.pop_front();
    ResponseSink* sink = first.sink_;
    std::unique_ptr<Slot> ended;
    if (event.final) {
      ended = std::move(slots_.front());
      slots_.pop_front();
    }
    const MutexUnlock unlock(mutex_);
    sink->Respond(std::move(event.response), event.final);
    ended.reset();
  }
}

}  // namespace braid
