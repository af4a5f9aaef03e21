// MountTree: a file system root that contains only some files and folders of this machine.
//
// Its mounts are read-only, except for the writable folders. Therefore calls that Landlock does not cover
// change nothing there: modes, owners, dates, extended attributes. Other files do not exist in it: their
// metadata cannot be read, and no socket among them can be connected to.
#pragma once

#include <string>
#include <vector>

#include "base/landlock.h"
#include "base/status.h"

namespace braid {

class MountTree {
 public:
  // Plans a tree in which `paths` keep their places, with the symbolic links that lead to them. Missing paths
  // are left out. If /dev/shm is among them, it is a new, empty one.
  static MountTree Of(const std::vector<LandlockPath>& paths);

  // Makes the tree the root and working folder of the calling thread and every process it starts afterwards.
  // They also get a new IPC namespace (System V and message queues). If `own_processes` is set, the caller
  // belongs to a new process table (CLONE_NEWPID), which /proc then shows. Allocates only if it fails.
  // Errors: INTERNAL.
  Status Enter(bool own_processes) const;

 private:
  enum class Kind { kFolder, kFile, kLink, kMount, kProcesses, kSharedMemory };
  struct Step {
    Kind kind = Kind::kFolder;
    std::string path = {};    // without the leading '/'
    std::string source = {};  // for kMount: the path; for kLink: its target
    bool writable = false;
  };
  class Plan;

  static Status Take(int root, const Step& step, bool own_processes);

  // In creation order: each step follows those that it depends on.
  std::vector<Step> steps_;
  int users_ = -1;  // the user namespace in which the tree is made; -1: the current one
};

// Whether this process can enter a MountTree: it is root or may create a user namespace, and no filter
// refuses the calls. Tried only once.
bool CanMakeMountTrees();

}  // namespace braid
