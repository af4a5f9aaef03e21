// HeldRequests: requests that have come while it is not known yet which sequences an earlier life of their
// model has left. They wait in the order in which they came. Not synchronised: the scheduler's lock guards
// it, and the notes in the requests, whose `sequence` is 0 while they are in here.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "scheduling/request_list.h"
#include "scheduling/timer_service.h"
#include "serving/request.h"

namespace braid {

class HeldRequests {
 public:
  // `timers` outlives this.
  explicit HeldRequests(Timers& timers) : timers_(timers) {}
  // REQUIRES: none is held.
  ~HeldRequests();
  HeldRequests(const HeldRequests&) = delete;
  HeldRequests& operator=(const HeldRequests&) = delete;

  // Holds requests from now on; `release` is called at `deadline_ns`, if Release() was not before.
  void Hold(int64_t deadline_ns, std::function<void()> release);
  bool holding() const { return holding_; }
  size_t size() const { return size_; }

  void Add(std::unique_ptr<InferenceRequest> request);
  // One that is held leaves.
  std::unique_ptr<InferenceRequest> Remove(InferenceRequest& request);
  // Holds none any more; returns those that were held.
  std::vector<std::unique_ptr<InferenceRequest>> Release();

 private:
  Timers& timers_;
  bool holding_ = false;
  TimerId timer_;
  RequestList requests_;
  size_t size_ = 0;
};

}  // namespace braid
