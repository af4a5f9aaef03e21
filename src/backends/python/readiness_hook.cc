#include "backends/python/readiness_hook.h"

#include <utility>

namespace braid {

void ReadinessHook::Open(std::shared_ptr<Channel> channel) {
  MutexLock lock(mutex_);
  channel_ = std::move(channel);
  running_ = false;
}

void ReadinessHook::Close(const std::string& reason) {
  std::vector<Waiting> waiting;
  {
    MutexLock lock(mutex_);
    channel_.reset();
    running_ = false;
    waiting.swap(waiting_);
  }
  for (Waiting& one : waiting) one.done({false, reason});
}

void ReadinessHook::Ask(Done done, int64_t now_ns) {
  Status sent;
  {
    MutexLock lock(mutex_);
    if (channel_ != nullptr) {
      const bool start = !running_;
      if (start) {
        std::vector<std::byte> message;
        Encode(message, CheckReadyMessage{++last_check_});
        sent = channel_->Send(message);
        running_ = sent.ok();
      }
      if (sent.ok()) {
        waiting_.push_back({std::move(done), now_ns + kTimeLimitNs, start});
        asked_.store(true, std::memory_order_release);
        channel_->Interrupt();
        return;
      }
    }
  }
  done(sent.ok() ? Readiness{} : Readiness{false, sent.message()});
}

void ReadinessHook::OnAnswer(const ReadinessMessage& message) {
  std::vector<Waiting> waiting;
  {
    MutexLock lock(mutex_);
    if (!running_ || message.check_id != last_check_) return;
    running_ = false;
    waiting.swap(waiting_);
  }
  Readiness readiness{message.ready, std::string(message.reason)};
  if (!readiness.ready && readiness.reason.empty()) {
    readiness.reason = "Model '" + instance_;
    readiness.reason += "' is not ready (user-defined check failed).";
  }
  for (Waiting& one : waiting) one.done(readiness);
}

int64_t ReadinessHook::Expire(int64_t now_ns) {
  if (!asked_.load(std::memory_order_acquire)) return INT64_MAX;
  std::vector<Waiting> over;
  int64_t next_ns = INT64_MAX;
  {
    MutexLock lock(mutex_);
    while (!waiting_.empty() && waiting_.front().deadline_ns <= now_ns) {
      over.push_back(std::move(waiting_.front()));
      waiting_.erase(waiting_.begin());
    }
    if (waiting_.empty()) {
      asked_.store(false, std::memory_order_relaxed);
    } else {
      next_ns = waiting_.front().deadline_ns;
    }
  }
  for (Waiting& one : over) {
    one.done({false, one.started ? "Timed out waiting for user-defined is_ready() response"
                                 : "Timed out waiting for in-flight is_ready() response"});
  }
  return next_ns;
}

}  // namespace braid
