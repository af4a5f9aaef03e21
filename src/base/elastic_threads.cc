#include "base/elastic_threads.h"

#include <system_error>
#include <utility>

#include "base/guard.h"
#include "base/thread.h"

namespace braid {

ElasticThreads::~ElasticThreads() {
  std::unique_lock lock(mutex_);
  stopping_ = true;
  changed_.notify_all();
  emptied_.wait(lock, [this] { return threads_.empty(); });
  std::thread last = std::move(ended_);
  lock.unlock();
  if (last.joinable()) last.join();
}

void ElasticThreads::Run(std::function<void()> work) {
  std::unique_lock lock(mutex_);
  work_.push_back(std::move(work));
  if (work_.size() <= idle_ || threads_.size() >= options_.most) {
    changed_.notify_one();
    return;
  }
  const auto self = threads_.emplace(threads_.end());
  try {
    *self = StartThread(options_.name, [this, self] { Loop(self); });
    return;
  } catch (const std::system_error&) {
    threads_.erase(self);
  }
  // With others at work it is only slower.
  if (!threads_.empty()) return;
  const std::function<void()> own = std::move(work_.back());
  work_.pop_back();
  lock.unlock();
  GuardedOrReport(options_.name, own);
}

size_t ElasticThreads::waiting() const {
  std::lock_guard lock(mutex_);
  return work_.size();
}

size_t ElasticThreads::threads() const {
  std::lock_guard lock(mutex_);
  return threads_.size();
}

void ElasticThreads::Loop(Threads::iterator self) {
  std::unique_lock lock(mutex_);
  for (;;) {
    if (!work_.empty()) {
      std::function<void()> work = std::move(work_.front());
      work_.pop_front();
      lock.unlock();
      GuardedOrReport(options_.name, work);
      work = nullptr;  // what it holds may take a while to let go
      lock.lock();
      continue;
    }
    if (stopping_) break;
    ++idle_;
    const bool called =
        changed_.wait_for(lock, options_.idle, [this] { return !work_.empty() || stopping_; });
    --idle_;
    if (!called) break;
  }
  std::thread before = std::exchange(ended_, std::move(*self));
  threads_.erase(self);
  if (threads_.empty()) emptied_.notify_all();
  lock.unlock();
  if (before.joinable()) before.join();
}

}  // namespace braid
