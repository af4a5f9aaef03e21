#include "protocols/net/control_pool.h"

#include <sys/resource.h>

#include <algorithm>

#include "base/guard.h"
#include "base/thread.h"

namespace braid {

int HalfOfCores() { return std::max(1, static_cast<int>(std::thread::hardware_concurrency() / 2)); }

ControlPool::ControlPool(int threads, const std::string& thread_name, size_t max_waiting, Priority priority)
    : max_waiting_(max_waiting) {
  for (int i = 0; i < threads; ++i) {
    threads_.push_back(StartThread(thread_name + "-" + std::to_string(i), [this, priority] {
      // Applies to this thread only: Linux keeps a nice value for each thread.
      if (priority == Priority::kLow) ::setpriority(PRIO_PROCESS, 0, 10);
      Run();
    }));
  }
}

ControlPool::~ControlPool() { Stop(); }

bool ControlPool::Submit(std::function<void()> task) {
  {
    MutexLock lock(mutex_);
    if (stopping_ || waiting_.size() >= max_waiting_) return false;
    waiting_.push_back(std::move(task));
  }
  changed_.NotifyOne();
  return true;
}

void ControlPool::Stop() {
  std::deque<std::function<void()>> dropped;
  {
    MutexLock lock(mutex_);
    stopping_ = true;
    dropped.swap(waiting_);
  }
  changed_.NotifyAll();
  for (auto& thread : threads_) {
    if (thread.joinable()) thread.join();
  }
}

void ControlPool::Run() {
  while (true) {
    std::function<void()> task;
    {
      MutexLock lock(mutex_);
      while (!stopping_ && waiting_.empty()) changed_.Wait(mutex_);
      if (waiting_.empty()) return;
      task = std::move(waiting_.front());
      waiting_.pop_front();
    }
    GuardedOrReport("control thread", task);
  }
}

}  // namespace braid
