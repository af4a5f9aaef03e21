// StreamDeliveries: brings what a run says on any thread to the sink of a stream: one call at a time, in
// order, without a lock.
#pragma once

#include <deque>
#include <functional>
#include <mutex>
#include <string>
#include <utility>
#include <variant>

#include "serving/request.h"
#include "serving/servable_stream.h"

namespace braid {

// Any thread. Whoever finds nobody delivering delivers, what others leave meanwhile too.
class StreamDeliveries {
 public:
  // Delivers nothing before Release().
  explicit StreamDeliveries(StreamSink& sink) : sink_(sink) {}

  void Respond(InferenceResponse response, std::string request_id);
  void WantsInput();
  // The last delivery. `before` is called just before the sink hears of it.
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
  void Deliver(std::unique_lock<std::mutex> lock);
  void Hand(Delivery& delivery);

  StreamSink& sink_;  // until the end was delivered
  std::mutex mutex_;
  // All guarded by mutex_.
  std::deque<Delivery> waiting_;
  bool delivering_ = false;
  bool released_ = false;
};

}  // namespace braid
