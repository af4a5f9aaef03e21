// ControlPool: a few threads for calls that block, such as loading a model, or that take long. Network
// threads hand such calls over, so that they never block.
#pragma once

#include <deque>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "base/mutex.h"

namespace braid {

// Half as many threads as cores, at least 1. For work of which only a little may run at a time.
int HalfOfCores();

class ControlPool {
 public:
  enum class Priority : unsigned char {
    kNormal,
    kLow,  // yields the CPU to small requests
  };
  // The threads are named "{thread_name}-0", ... At most `max_waiting` tasks wait for a thread.
  ControlPool(int threads, const std::string& thread_name, size_t max_waiting,
              Priority priority = Priority::kNormal);
  // Waits for running tasks and drops waiting ones.
  ~ControlPool();

  // Returns false if too many tasks wait, or after Stop(). Any thread.
  bool Submit(std::function<void()> task);
  // Like the destructor. May be called more than once.
  void Stop();

 private:
  void Run();

  const size_t max_waiting_;
  Mutex mutex_;
  CondVar changed_;
  std::deque<std::function<void()>> waiting_ BRAID_GUARDED_BY(mutex_);
  bool stopping_ BRAID_GUARDED_BY(mutex_) = false;
  std::vector<std::thread> threads_;
};

}  // namespace braid
