// Door: blocks a load until a test opens it, so that the test can inspect the state meanwhile.
#pragma once

#include <condition_variable>
#include <mutex>

namespace braid::testing {

class Door {
 public:
  void Pass() {
    std::unique_lock lock(mutex_);
    ++waiting_;
    changed_.notify_all();
    changed_.wait(lock, [this] { return open_; });
  }
  void Open() {
    std::lock_guard lock(mutex_);
    open_ = true;
    changed_.notify_all();
  }
  void WaitForVisitor() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return waiting_ > 0; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool open_ = false;  // guarded by mutex_
  int waiting_ = 0;    // guarded by mutex_
};

}  // namespace braid::testing
