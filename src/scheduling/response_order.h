// ResponseOrder: delivers the responses of a model in the order in which its requests came
// (preserve_ordering).
//
// A request that enters gets a slot in the order in place of its sink. Responses for a slot other than the
// first are kept until the slots before it have ended.
#pragma once

#include <deque>
#include <memory>
#include <optional>

#include "base/mutex.h"
#include "base/serial_delivery.h"
#include "serving/request.h"

namespace braid {

class ResponseOrder : public std::enable_shared_from_this<ResponseOrder> {
 public:
  ResponseOrder() = default;
  // REQUIRES: every request that entered has ended.
  ~ResponseOrder();
  ResponseOrder(const ResponseOrder&) = delete;
  ResponseOrder& operator=(const ResponseOrder&) = delete;

  // Gives the request the last slot. Responses leave in the order of the calls. Any thread; makes no
  // callbacks.
  void Enter(InferenceRequest& request);

 private:
  struct Event {
    std::optional<InferenceResponse> response;
    bool final = false;
  };
  class Slot final : public ResponseSink {
   public:
    Slot(std::shared_ptr<ResponseOrder> order, ResponseSink* sink) : order_(std::move(order)), sink_(sink) {}
    void Respond(std::optional<InferenceResponse> response, bool final) override;

   private:
    friend class ResponseOrder;
    // Shared: a request leaves the model's gate before its end is delivered, so the last response may be
    // delivered after the model was destroyed.
    const std::shared_ptr<ResponseOrder> order_;
    ResponseSink* const sink_;
    std::deque<Event> events_;  // guarded by the order's mutex
  };

  void Deliver();

  Mutex mutex_;
  // Not held while a sink is called.
  std::deque<std::unique_ptr<Slot>> slots_ BRAID_GUARDED_BY(mutex_);
  SerialDelivery delivery_ BRAID_GUARDED_BY(mutex_);
};

}  // namespace braid
