// Confinement: what a process gives up for good before it is a program of somebody else's.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/landlock.h"
#include "base/status.h"
#include "isolation/isolation_level.h"
#include "isolation/mount_tree.h"
#include "isolation/syscall_filter.h"

namespace braid {

struct Confinement {
  IsolationLevel level = IsolationLevel::kBasic;
  // Of kStrict and kSeparate: all the files that can be reached. Where the server may mount they are all that there are: its
  // root is a MountTree of them, and "/" the folder that it is in.
  std::vector<LandlockPath> files = {};
  // Of kSeparate: the user and the group.
  uint32_t user_id = 0;
};

// A confinement as the kernel takes it: made beforehand, since the process that enters it may share its parent's memory, where one
// that is killed must not hold a lock. What this machine has not got for kBasic is left out, see IsolationReport. Errors: what
// of kStrict or kSeparate this machine does not do.
class PreparedConfinement {
 public:
  static Result<PreparedConfinement> Make(Confinement confinement);

  // Confines the calling thread, and all that it starts from then on; the other threads stay as they are. For kSeparate it is
  // the first of a new process table (CLONE_NEWPID). Allocates nothing unless it fails.
  Status Enter() const;

 private:
  Status EnterLevel() const;

  Confinement confinement_;
  std::optional<MountTree> tree_;
  SyscallFilter filter_;
};

// Confines the calling process, which has one thread and starts no program: from then on it can use what it has open, and
// reach `files`, as far as this machine keeps it from the rest; it has no capabilities and no new sockets, and changes modes and
// dates of what it has open alone. Errors: as above.
Status ConfineProcess(const std::vector<LandlockPath>& files);

// What this machine and the server's rights make of a level.
struct IsolationReport {
  std::vector<std::string> kept_out;  // "memory", "signals", ...: what of the server a worker does not reach
  // Why not more: "signals: needs Linux 6.12".
  std::vector<std::string> missing;
  // Why the level's promise cannot be kept at all; empty: it can.
  std::string refused;
};
IsolationReport ReportIsolation(IsolationLevel level);

}  // namespace braid
