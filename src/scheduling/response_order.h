// Makes the responses of a model leave in the order in which its requests came (preserve_ordering).
//
// A request that is let in gets a slot in the order instead of its own sink. What arrives for a slot that
// is not the first is kept until those before it have ended.
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
  // REQUIRES: every request that was let in has ended.
  ~ResponseOrder();
  ResponseOrder(const ResponseOrder&) = delete;
  ResponseOrder& operator=(const ResponseOrder&) = delete;

  // Gives the request the last slot. The order of the calls is the order of the responses. Any thread; calls
  // nobody.
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
    // Shared: the last response may be on its way when the model is gone already, as a request leaves the
    // model's gate before its end is delivered.
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
