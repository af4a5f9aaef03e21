// ChildReaper: reports the end of child processes, as soon as the kernel does, and reaps them.
//
// The server is the child subreaper. So orphans of user code become its children, and are reaped without a
// report.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/mutex.h"
#include "base/process_family.h"
#include "base/status.h"
#include "base/unique_fd.h"

namespace braid {

// How a process ended.
struct ExitCause {
  bool signalled = false;
  int number = 0;  // the signal or the exit code

  // Returns "it was ended by signal 11 (Segmentation fault)", "it exited with code 3".
  std::string ToString() const;
};

class ChildReaper {
 public:
  // Called once, on the reaper's thread; must not block. By then the process is reaped and its group was
  // killed; its id may already be reused.
  using OnExit = std::function<void(ExitCause)>;

  // Makes this process the subreaper of its descendants. At most one reaper per process.
  static Result<std::unique_ptr<ChildReaper>> Create();
  ~ChildReaper();

  // While a scope exists, unknown children are not reaped: the caller may be about to watch them.
  class SpawnScope {
   public:
    explicit SpawnScope(ChildReaper& reaper);
    ~SpawnScope();
    SpawnScope(const SpawnScope&) = delete;
    SpawnScope& operator=(const SpawnScope&) = delete;

   private:
    ChildReaper& reaper_;
  };

  // Watches a child of this process. When it ends, the rest of its process group (if it leads one) and of its
  // family is killed. REQUIRES: called inside the SpawnScope that was open when the child was made.
  Status Watch(pid_t pid, OnExit on_exit, std::optional<ProcessFamily> family = std::nullopt);
  // Sends a signal to a watched child and its group; does nothing after its end.
  void Kill(pid_t pid, int signal);

 private:
  ChildReaper(UniqueFd epoll, UniqueFd wake);
  void Run();
  void Reap(pid_t pid);
  void ReapOrphans();
  // Kills remaining members of the families whose first process has ended.
  void EndFamilies();

  struct Child {
    UniqueFd pidfd;
    OnExit on_exit;
    std::optional<ProcessFamily> family;
  };
  struct Orphaned {
    ProcessFamily family;
    int64_t give_up_ns = 0;  // when to stop waiting for killed processes that do not end
    int empty_looks = 0;     // consecutive checks that found no process
  };
  const UniqueFd epoll_;
  const UniqueFd wake_;
  Mutex mutex_;
  std::map<pid_t, Child> children_ BRAID_GUARDED_BY(mutex_);
  int spawning_ BRAID_GUARDED_BY(mutex_) = 0;
  bool stopping_ BRAID_GUARDED_BY(mutex_) = false;
  std::vector<Orphaned> orphaned_;  // the thread's
  std::thread thread_;
};

}  // namespace braid
