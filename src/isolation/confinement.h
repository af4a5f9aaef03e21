// Confinement: the rights that a process gives up for good before it runs a foreign program.
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
  // For kStrict and kSeparate: the only files that the process can reach. If the server may mount, no others
  // exist for the process: its root is a MountTree of them, and "/" is its working folder.
  std::vector<LandlockPath> files = {};
  // For kSeparate: the user and the group.
  uint32_t user_id = 0;
};

// A confinement in the form that the kernel takes. It is made beforehand, because the entering process may
// share its parent's memory. If it were killed there with a lock held, the lock would stay held. Features
// that this machine lacks are left out of kBasic, see IsolationReport. Errors: a feature of kStrict or
// kSeparate that this machine lacks.
class PreparedConfinement {
 public:
  static Result<PreparedConfinement> Make(Confinement confinement);

  // Confines the calling thread and every process it starts afterwards; other threads are not affected.
  // REQUIRES for kSeparate: the caller is the first process of a new process table (CLONE_NEWPID). Allocates
  // only if it fails.
  Status Enter() const;

 private:
  Status EnterLevel() const;

  Confinement confinement_;
  std::optional<MountTree> tree_;
  SyscallFilter filter_;
};

// Confines the calling process as far as this machine can. It keeps its open files and can reach `files`. It
// has no capabilities, cannot create sockets, and can change modes and dates only of open files. REQUIRES:
// the process has one thread and starts no program. Errors: as above.
Status ConfineProcess(const std::vector<LandlockPath>& files);

// The protection that this machine and the server's rights give for a level.
struct IsolationReport {
  std::vector<std::string> kept_out;  // parts of the server out of a worker's reach: "memory", "signals", ...
  // Missing protection, with the reason: "signals: needs Linux 6.12".
  std::vector<std::string> missing;
  // The reason why the level is not available at all; empty if it is.
  std::string refused;
};
IsolationReport ReportIsolation(IsolationLevel level);

}  // namespace braid
