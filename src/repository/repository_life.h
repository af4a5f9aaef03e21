// RepositoryLife: the phases of a repository (new, serving, exiting), the work that its end waits for, and
// the threads that poll.
//
//   const RepositoryLife::Work work(life);
//   if (!work.begun()) return UnavailableError("Server exiting");
//   ...                                          // Exit() and End() elsewhere: End() waits for this
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <thread>
#include <vector>

#include "base/mutex.h"
#include "base/status.h"

namespace braid {

// All methods may be called from any thread.
class RepositoryLife {
 public:
  RepositoryLife() = default;
  // REQUIRES: no thread was started, or End() has returned true.
  ~RepositoryLife();
  RepositoryLife(const RepositoryLife&) = delete;
  RepositoryLife& operator=(const RepositoryLife&) = delete;

  // A piece of work for as long as it lives; not begun when the repository exits.
  class Work {
   public:
    explicit Work(RepositoryLife& life);
    ~Work();
    Work(const Work&) = delete;
    Work& operator=(const Work&) = delete;
    bool begun() const { return begun_; }

   private:
    RepositoryLife& life_;
    bool begun_ = false;
  };

  // From new to serving. Called once. Errors: UNAVAILABLE when the repository exits already.
  Status Serve();
  bool serving() const;
  bool exiting() const;

  // Runs `loop` on a thread of its own, which is to return when Sleep() says so. Errors:
  // INTERNAL when there is no thread to be had; UNAVAILABLE when the repository exits.
  Status StartPolling(const char* thread_name, std::function<void()> loop);
  // For the loop: waits until `until_ns` (SteadyNowNs() time), or until Wake(). False when it is to return.
  bool Sleep(int64_t until_ns);
  // Ends the Sleep() that runs, or else the next one; of one loop, where there are several.
  void Wake();

  // From now on nothing begins.
  void Exit();
  // Waits for the work that has begun, and for the loops. False when that takes past `deadline_ns`. REQUIRES:
  // Exit() was called.
  bool End(int64_t deadline_ns);

 private:
  enum class Phase : unsigned char { kNew, kServing, kExiting };

  // Waits for a change of what mutex_ guards. False when the deadline has passed.
  bool WaitForChange(int64_t deadline_ns) BRAID_REQUIRES(mutex_);

  mutable Mutex mutex_;
  CondVar changed_;  // of anything below
  // Written with mutex_ held, which is not needed to read it: serving() is asked for each request.
  std::atomic<Phase> phase_ = Phase::kNew;
  int works_ BRAID_GUARDED_BY(mutex_) = 0;
  bool woken_ BRAID_GUARDED_BY(mutex_) = false;
  std::vector<std::thread> pollers_ BRAID_GUARDED_BY(mutex_);
};

}  // namespace braid
