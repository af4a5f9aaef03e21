#include "protocols/kserve/grpc_task_pool.h"

#include "base/thread.h"

namespace braid {

GrpcTaskPool::GrpcTaskPool(const std::string& name, int threads, size_t max_waiting)
    : max_waiting_(max_waiting) {
  for (int i = 0; i < threads; ++i) {
    threads_.push_back(StartThread(name + std::to_string(i), [this] { Work(); }));
  }
}

GrpcTaskPool::~GrpcTaskPool() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

bool GrpcTaskPool::Run(std::function<void()> task) {
  {
    std::lock_guard lock(mutex_);
    if (waiting_.size() >= max_waiting_) return false;
    waiting_.push_back(std::move(task));
  }
  changed_.notify_one();
  return true;
}

void GrpcTaskPool::Work() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return stopping_ || !waiting_.empty(); });
    if (waiting_.empty()) return;
    std::function<void()> task = std::move(waiting_.front());
    waiting_.pop_front();
    lock.unlock();
    task();
    task = nullptr;
    lock.lock();
  }
}

}  // namespace braid
