// HeldRequests: requests that arrive before the sequences of the model's previous run are restored. They wait
// in order of arrival. Not synchronised: the scheduler's lock guards it, and the notes in the requests, whose
// `sequence` is 0 while they are held.
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
  // `timers` outlives it.
  explicit HeldRequests(Timers& timers) : timers_(timers) {}
  // REQUIRES: no request is held.
  ~HeldRequests();
  HeldRequests(const HeldRequests&) = delete;
  HeldRequests& operator=(const HeldRequests&) = delete;

  // Holds requests from now on. `release` is called at `deadline_ns` unless Release() was called before.
  void Hold(int64_t deadline_ns, std::function<void()> release);
  bool holding() const { return holding_; }
  size_t size() const { return size_; }

  void Add(std::unique_ptr<InferenceRequest> request);
  // Removes a held request.
  std::unique_ptr<InferenceRequest> Remove(InferenceRequest& request);
  // Ends the hold and returns the held requests.
  std::vector<std::unique_ptr<InferenceRequest>> Release();

 private:
  Timers& timers_;
  bool holding_ = false;
  TimerId timer_;
  RequestList requests_;
  size_t size_ = 0;
};

}  // namespace braid
