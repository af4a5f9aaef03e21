// Landlock: what a thread, and all that it starts from then on, can reach. See landlock(7).
//
// A domain cannot be left. Its processes trace no process outside of it or of a domain beside it, nor open its memory
// under /proc, also as root; from version 6 of the kernel's interface on (Linux 6.12) they send it no signals and
// connect to no abstract socket of its. What of a process can be read under /proc (environment, descriptors, maps) is
// not kept from them: that process is to be made not dumpable.
#pragma once

#include <string>
#include <vector>

#include "base/status.h"

namespace braid {

// The version of the kernel's interface; 0: there is none, or it is switched off.
int LandlockVersion();

// A file, or a folder with all that is below it.
struct LandlockPath {
  std::string path;
  bool writable = false;  // else it is read, and run
};

// From which version on a domain can leave all files reachable as they were: in version 1 no file could be moved from
// one folder to another.
inline constexpr int kLandlockForAllFiles = 2;
// From which version on signals and abstract sockets are kept within a domain.
inline constexpr int kLandlockForSignals = 6;

// Puts the calling thread into a new domain, in which files are as they were. Allocates nothing unless it fails. Errors:
// UNAVAILABLE: not on this kernel.
Status EnterLandlockDomain();

// The same, with `paths` as all the files that can be reached; those that do not exist are left out.
Status EnterLandlockDomain(const std::vector<LandlockPath>& paths);

}  // namespace braid
