#include "scheduling/held_requests.h"

#include "base/check.h"

namespace braid {

HeldRequests::~HeldRequests() { BRAID_CHECK(size_ == 0); }

void HeldRequests::Hold(int64_t deadline_ns, std::function<void()> release) {
  holding_ = true;
  timers_.Withdraw(timer_);
  timer_ = timers_.At(deadline_ns, std::move(release));
}

void HeldRequests::Add(std::unique_ptr<InferenceRequest> request) {
  request->scheduling.queued = true;
  requests_.Append(std::move(request));
  ++size_;
}

std::unique_ptr<InferenceRequest> HeldRequests::Remove(InferenceRequest& request) {
  request.scheduling.queued = false;
  --size_;
  return requests_.Remove(request);
}

std::vector<std::unique_ptr<InferenceRequest>> HeldRequests::Release() {
  holding_ = false;
  timers_.Withdraw(timer_);
  std::vector<std::unique_ptr<InferenceRequest>> released;
  released.reserve(size_);
  while (!requests_.empty()) released.push_back(Remove(*requests_.first()));
  return released;
}

}  // namespace braid
