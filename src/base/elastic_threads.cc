#include "base/elastic_threads.h"

#include <system_error>
#include <utility>

#include "base/guard.h"
#include "base/thread.h"

namespace braid {

ElasticThreads::~ElasticThreads() {
  MutexLock lock(mutex_);
  stopping_ = true;
  changed_.NotifyAll();
  while (!threads_.empty()) emptied_.Wait(mutex_);
  std::thread last = std::move(ended_);
  lock.Unlock();
  if (last.joinable()) last.join();
}

void ElasticThreads::Run(std::function<void()> work) {
  MutexLock lock(mutex_);
  {
    // Once the work is queued it must run, and a thread in the list must start, so allocations are retried.
    const RetryingAllocation retrying;
    work_.push_back(std::move(work));
    if (work_.size() <= idle_ || threads_.size() >= options_.most) {
      changed_.NotifyOne();
      return;
    }
    const auto self = threads_.emplace(threads_.end());
    try {
      *self = StartThread(options_.name, [this, self] { Loop(self); });
      return;
    } catch (const std::system_error&) {
      threads_.erase(self);
    }
  }
  // Other threads will do the work, only later.
  if (!threads_.empty()) return;
  const std::function<void()> own = std::move(work_.back());
  work_.pop_back();
  lock.Unlock();
  GuardedOrReport(options_.name, own);
}

size_t ElasticThreads::waiting() const {
  MutexLock lock(mutex_);
  return work_.size();
}

size_t ElasticThreads::threads() const {
  MutexLock lock(mutex_);
  return threads_.size();
}

void ElasticThreads::Loop(Threads::iterator self) {
  MutexLock lock(mutex_);
  for (;;) {
    if (!work_.empty()) {
      std::function<void()> work = std::move(work_.front());
      work_.pop_front();
      lock.Unlock();
      GuardedOrReport(options_.name, work);
      work = nullptr;  // its captures may take a while to destroy, so not under the lock
      lock.Lock();
      continue;
    }
    if (stopping_) break;
    ++idle_;
    const auto idle_end = std::chrono::steady_clock::now() + options_.idle;
    while (work_.empty() && !stopping_ && changed_.WaitUntil(mutex_, idle_end)) {
    }
    --idle_;
    if (work_.empty() && !stopping_) break;
  }
  std::thread before = std::exchange(ended_, std::move(*self));
  threads_.erase(self);
  if (threads_.empty()) emptied_.NotifyAll();
  lock.Unlock();
  if (before.joinable()) before.join();
}

}  // namespace braid
