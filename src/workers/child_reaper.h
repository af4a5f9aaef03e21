// ChildReaper: learns of the end of child processes from the kernel, at once, and leaves no zombie behind.
//
// The server is the child subreaper, so processes that user code has orphaned end up here as well and are
// reaped quietly.
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
  int number = 0;  // of the signal, or the exit code

  // "it was ended by signal 11 (Segmentation fault)", "it exited with code 3".
  std::string ToString() const;
};

class ChildReaper {
 public:
  // Called on the reaper's thread, once; must not block. The process is gone, its group was killed, its id
  // may be used anew.
  using OnExit = std::function<void(ExitCause)>;

  // Makes this process the subreaper of what its children leave behind. One per process.
  static Result<std::unique_ptr<ChildReaper>> Create();
  ~ChildReaper();

  // While one of these lives, unknown children are left alone: one of them may be about to be watched.
  class SpawnScope {
   public:
    explicit SpawnScope(ChildReaper& reaper);
    ~SpawnScope();
    SpawnScope(const SpawnScope&) = delete;
    SpawnScope& operator=(const SpawnScope&) = delete;

   private:
    ChildReaper& reaper_;
  };

  // Watches a child of this process. When it ends, what is left of its process group (if it leads one) and of
  // its family is killed. REQUIRES: called inside the SpawnScope that was open when the child was made.
  Status Watch(pid_t pid, OnExit on_exit, std::optional<ProcessFamily> family = std::nullopt);
  // Sends a signal to a watched child and its group; nothing happens when it has ended.
  void Kill(pid_t pid, int signal);

 private:
  ChildReaper(UniqueFd epoll, UniqueFd wake);
  void Run();
  void Reap(pid_t pid);
  void ReapOrphans();
  // Kills what has been missed of the families whose heads have ended.
  void EndFamilies();

  struct Child {
    UniqueFd pidfd;
    OnExit on_exit;
    std::optional<ProcessFamily> family;
  };
  struct Orphaned {
    ProcessFamily family;
    int64_t give_up_ns = 0;  // on those that do not end although they were killed
    int empty_looks = 0;     // in a row
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
