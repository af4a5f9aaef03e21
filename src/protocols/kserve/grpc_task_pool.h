// Threads for control calls that may take long, so that these never hold up a completion queue.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace braid {

class GrpcTaskPool {
 public:
  // `name` is that of the threads, which get a number behind it.
  GrpcTaskPool(const std::string& name, int threads, size_t max_waiting);
  // Waits for the tasks that run; those that wait are run as well.
  ~GrpcTaskPool();

  // False when too many tasks wait already. Any thread.
  bool Run(std::function<void()> task);

 private:
  void Work();

  const size_t max_waiting_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> waiting_;  // guarded by mutex_
  bool stopping_ = false;                      // guarded by mutex_
  std::vector<std::thread> threads_;
};

}  // namespace braid
