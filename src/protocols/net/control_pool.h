// A few threads for calls that block, such as loading a model, or take long, so that network threads never
// do.
#pragma once

#include <deque>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "base/mutex.h"

namespace braid {

// Half as many threads as there are cores, at least 1: for work of which little is to go on at a time.
int HalfOfCores();

class ControlPool {
 public:
  enum class Priority : unsigned char {
    kNormal,
    kLow,  // others' small requests are worth more
  };
  // Threads are "{thread_name}-0", ... At most `max_waiting` tasks wait for one.
  ControlPool(int threads, const std::string& thread_name, size_t max_waiting,
              Priority priority = Priority::kNormal);
  // Waits for the tasks that run; drops those that wait.
  ~ControlPool();

  // False when too many tasks wait, or the pool is being stopped. Any thread.
  bool Submit(std::function<void()> task);
  // As the destructor. May be called more than once.
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
