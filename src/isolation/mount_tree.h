// MountTree: a root of the file system that has some files and folders of this machine, and nothing else.
//
// Mounts in it are read-only, but for the folders to write to. Thus calls that Landlock does not know change nothing there:
// modes, owners, dates, extended attributes. Other files have no name there: no call asks for their facts, and no socket among
// them can be connected to.
#pragma once

#include <string>
#include <vector>

#include "base/landlock.h"
#include "base/status.h"

namespace braid {

class MountTree {
 public:
  // `paths` stand where they stand, with the symbolic links that lead to them; those that do not exist are left out. Of
  // these, /dev/shm is empty, and its own.
  static MountTree Of(const std::vector<LandlockPath>& paths);

  // Makes it the root, and the folder, of the calling thread and all that it starts from then on. They have IPC of their own, too:
  // System V, and queues of messages. `own_processes`: it is of a new process table (CLONE_NEWPID), and /proc shows that.
  // Allocates nothing unless it fails. Errors: INTERNAL.
  Status Enter(bool own_processes) const;

 private:
  enum class Kind { kFolder, kFile, kLink, kMount, kProcesses, kSharedMemory };
  struct Step {
    Kind kind = Kind::kFolder;
    std::string path = {};    // without the '/' that it begins with
    std::string source = {};  // of kMount: the path; of kLink: where it leads
    bool writable = false;
  };
  class Plan;

  static Status Take(int root, const Step& step, bool own_processes);

  // Each behind those that it stands on.
  std::vector<Step> steps_;
  int users_ = -1;  // the user namespace that it is made in; -1: this one
};

// Whether this process may make one: it is root, or its user gets a user namespace, and nothing around it refuses the calls. It is
// tried once.
bool CanMakeMountTrees();

}  // namespace braid
