// A mutex with clang's static analysis. The code states which members a mutex guards and which functions need
// it (BRAID_GUARDED_BY, BRAID_REQUIRES); `-Wthread-safety` checks it. Other compilers see a plain std::mutex.
//
//   class Counter {
//    public:
//     void Add() {
//       MutexLock lock(mutex_);
//       ++count_;
//     }
//
//    private:
//     Mutex mutex_;
//     int count_ BRAID_GUARDED_BY(mutex_) = 0;
//   };
//
// The attributes: https://clang.llvm.org/docs/ThreadSafetyAnalysis.html
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>

#if defined(__clang__)
#define BRAID_THREAD_ATTRIBUTE(x) __attribute__((x))
#else
#define BRAID_THREAD_ATTRIBUTE(x)
#endif

// A member that is read and written only with the mutex held.
#define BRAID_GUARDED_BY(mutex) BRAID_THREAD_ATTRIBUTE(guarded_by(mutex))
// A function that is called with the mutex held; a function that is called without it.
#define BRAID_REQUIRES(...) BRAID_THREAD_ATTRIBUTE(requires_capability(__VA_ARGS__))
#define BRAID_EXCLUDES(...) BRAID_THREAD_ATTRIBUTE(locks_excluded(__VA_ARGS__))
// A function that acquires the mutex; a function that releases it.
#define BRAID_ACQUIRE(...) BRAID_THREAD_ATTRIBUTE(acquire_capability(__VA_ARGS__))
#define BRAID_RELEASE(...) BRAID_THREAD_ATTRIBUTE(release_capability(__VA_ARGS__))

namespace braid {

class BRAID_THREAD_ATTRIBUTE(capability("mutex")) Mutex {
 public:
  Mutex() = default;
  Mutex(const Mutex&) = delete;
  Mutex& operator=(const Mutex&) = delete;

  void Lock() BRAID_ACQUIRE() { mutex_.lock(); }
  void Unlock() BRAID_RELEASE() { mutex_.unlock(); }
  // Tells the analysis that the mutex is held where it cannot see it, as in a lambda of a function that holds
  // it.
  void AssertHeld() const BRAID_THREAD_ATTRIBUTE(assert_capability(this)) {}

 private:
  friend class CondVar;
  std::mutex mutex_;
};

// Holds a mutex until the end of a block, or until Unlock().
class BRAID_THREAD_ATTRIBUTE(scoped_lockable) MutexLock {
 public:
  explicit MutexLock(Mutex& mutex) BRAID_ACQUIRE(mutex) : mutex_(mutex) { mutex_.Lock(); }
  ~MutexLock() BRAID_RELEASE() {
    if (held_) mutex_.Unlock();
  }
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

  // REQUIRES: the mutex is held.
  void Unlock() BRAID_RELEASE() {
    held_ = false;
    mutex_.Unlock();
  }
  // REQUIRES: the mutex is not held.
  void Lock() BRAID_ACQUIRE() {
    mutex_.Lock();
    held_ = true;
  }

 private:
  Mutex& mutex_;
  bool held_ = true;
};

// Releases a mutex until the end of a block, in a function that is called with it held.
class BRAID_THREAD_ATTRIBUTE(scoped_lockable) MutexUnlock {
 public:
  explicit MutexUnlock(Mutex& mutex) BRAID_RELEASE(mutex) : mutex_(mutex) { mutex_.Unlock(); }
  ~MutexUnlock() BRAID_RELEASE() { mutex_.Lock(); }
  MutexUnlock(const MutexUnlock&) = delete;
  MutexUnlock& operator=(const MutexUnlock&) = delete;

 private:
  Mutex& mutex_;
};

// A condition variable. Write waits as a loop, so that the condition is read under the mutex where the
// analysis sees it:
//
//   while (!done_) changed_.Wait(mutex_);
class CondVar {
 public:
  // Releases the mutex while it waits. May return without a notification.
  void Wait(Mutex& mutex) BRAID_REQUIRES(mutex) {
    std::unique_lock<std::mutex> lock(mutex.mutex_, std::adopt_lock);
    condition_.wait(lock);
    lock.release();
  }
  // Waits until `deadline` at most; returns false if the deadline has passed.
  template <class Clock, class Duration>
  bool WaitUntil(Mutex& mutex, const std::chrono::time_point<Clock, Duration>& deadline)
      BRAID_REQUIRES(mutex) {
    std::unique_lock<std::mutex> lock(mutex.mutex_, std::adopt_lock);
    const std::cv_status status = condition_.wait_until(lock, deadline);
    lock.release();
    return status == std::cv_status::no_timeout;
  }
  // Waits for `time` at most; returns false if the time is over.
  template <class Rep, class Period>
  bool WaitFor(Mutex& mutex, std::chrono::duration<Rep, Period> time) BRAID_REQUIRES(mutex) {
    return WaitUntil(mutex, std::chrono::steady_clock::now() + time);
  }
  void NotifyOne() noexcept { condition_.notify_one(); }
  void NotifyAll() noexcept { condition_.notify_all(); }

 private:
  std::condition_variable condition_;
};

}  // namespace braid
