// A clock that moves only when the test advances it.
#pragma once

#include <functional>
#include <map>
#include <utility>

#include "scheduling/timer_service.h"

namespace braid {

class ManualTimers final : public Timers {
 public:
  int64_t NowNs() const override { return now_ns_; }
  TimerId At(int64_t deadline_ns, std::function<void()> callback) override {
    const TimerId id{deadline_ns, ++last_number_};
    timers_.emplace(id, std::move(callback));
    return id;
  }
  bool Withdraw(TimerId id) override { return timers_.erase(id) > 0; }
  void Cancel(TimerId id) override { Withdraw(id); }

  // Runs the timers that are due.
  void Run() { Advance(0); }
  // Advances the clock, from timer to timer.
  void Advance(int64_t duration_ns) {
    const int64_t end_ns = now_ns_ + duration_ns;
    while (!timers_.empty() && timers_.begin()->first.deadline_ns <= end_ns) {
      auto entry = timers_.extract(timers_.begin());
      now_ns_ = std::max(now_ns_, entry.key().deadline_ns);
      entry.mapped()();
    }
    now_ns_ = end_ns;
  }
  int64_t next_deadline_ns() const {
    return timers_.empty() ? INT64_MAX : timers_.begin()->first.deadline_ns;
  }
  size_t size() const { return timers_.size(); }

 private:
  int64_t now_ns_ = 1'000'000'000;
  uint64_t last_number_ = 0;
  std::map<TimerId, std::function<void()>> timers_;
};

}  // namespace braid
