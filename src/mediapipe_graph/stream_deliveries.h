// StreamDeliveries: delivers a run's events, from any thread, to the sink of a stream: one call at a time, in
// order, without a lock.
#pragma once

#include <deque>
#include <functional>
#include <string>
#include <utility>
#include <variant>

#include "base/mutex.h"
#include "base/serial_delivery.h"
#include "serving/request.h"
#include "serving/servable_stream.h"

namespace braid {

// Any thread.
class StreamDeliveries {
 public:
  // Delivers nothing before Release().
  explicit StreamDeliveries(StreamSink& sink) : sink_(sink) {}

  void Respond(InferenceResponse response, std::string request_id);
  void WantsInput();
  // Adds the last delivery; later ones are dropped. `before` is called just before the sink is notified.
  void End(Status status, std::function<void()> before);
  void Release();

 private:
  struct Response {
    InferenceResponse response;
    std::string request_id;
  };
  struct InputWanted {};
  struct TheEnd {
    Status status;
    std::function<void()> before;
  };
  using Delivery = std::variant<Response, InputWanted, TheEnd>;

  void Add(Delivery delivery);
  void Deliver() BRAID_REQUIRES(mutex_);
  void Hand(Delivery& delivery);

  StreamSink& sink_;  // until the end was delivered
  Mutex mutex_;
  std::deque<Delivery> waiting_ BRAID_GUARDED_BY(mutex_);
  SerialDelivery delivery_ BRAID_GUARDED_BY(mutex_);
  bool released_ BRAID_GUARDED_BY(mutex_) = false;
  bool ended_ BRAID_GUARDED_BY(mutex_) = false;  // End() was called
  Status lost_;  // the error of a failed delivery; used by the delivering thread
};

}  // namespace braid
