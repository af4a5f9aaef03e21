// RepositoryLife: the phases of a repository (new, serving, exiting), its work in progress, and its polling
// threads.
//
//   const RepositoryLife::Work work(life);
//   if (!work.begun()) return UnavailableError("Server exiting");
//   ...                                          // End() on another thread waits for this
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <thread>
#include <vector>

#include "base/mutex.h"
#include "base/status.h"

namespace braid {

// Thread-safe.
class RepositoryLife {
 public:
  RepositoryLife() = default;
  // REQUIRES: no thread was started, or End() has returned true.
  ~RepositoryLife();
  RepositoryLife(const RepositoryLife&) = delete;
  RepositoryLife& operator=(const RepositoryLife&) = delete;

  // A piece of work in progress during the object's lifetime. It does not begin if the repository exits.
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

  // Goes from new to serving. Called once. Errors: UNAVAILABLE if the repository exits already.
  Status Serve();
  bool serving() const;
  bool exiting() const;

  // Runs `loop` on a new thread; the loop returns when Sleep() returns false. Errors: INTERNAL if no thread
  // can be started; UNAVAILABLE if the repository exits.
  Status StartPolling(const char* thread_name, std::function<void()> loop);
  // Waits until `until_ns` (SteadyNowNs() time) or Wake(); called by the loop. Returns false if the loop has
  // to return.
  bool Sleep(int64_t until_ns);
  // Ends the current Sleep(), or else the next one. With several loops, it wakes one of them.
  void Wake();

  // Begins the exit: no new work begins.
  void Exit();
  // Waits for the work in progress, and for the loops. Returns false if they have not ended by `deadline_ns`.
  // REQUIRES: Exit() was called.
  bool End(int64_t deadline_ns);

 private:
  enum class Phase : unsigned char { kNew, kServing, kExiting };

  // Waits for a change of the members that mutex_ guards. Returns false if the deadline has passed.
  bool WaitForChange(int64_t deadline_ns) BRAID_REQUIRES(mutex_);

  mutable Mutex mutex_;
  CondVar changed_;  // notified when any member below changes
  // Written with mutex_ held; read without it, because every request calls serving().
  std::atomic<Phase> phase_ = Phase::kNew;
  int works_ BRAID_GUARDED_BY(mutex_) = 0;
  bool woken_ BRAID_GUARDED_BY(mutex_) = false;
  std::vector<std::thread> pollers_ BRAID_GUARDED_BY(mutex_);
};

}  // namespace braid
