// Landlock: restricts the files and processes that a thread, and everything it starts later, can reach. See
// landlock(7).
//
// A thread cannot leave its domain. Its processes cannot trace processes outside the domain or in a sibling
// domain, nor open their memory under /proc, even as root. From version 6 of the kernel's interface on (Linux
// 6.12) they cannot send them signals or connect to their abstract sockets. They can still read the
// environment, descriptors and maps of such processes under /proc; to prevent it, make the other process not
// dumpable.
#pragma once

#include <string>
#include <vector>

#include "base/status.h"

namespace braid {

// Returns the version of the kernel's interface; 0 if it is missing or switched off.
int LandlockVersion();

// A file, or a folder with everything below it.
struct LandlockPath {
  std::string path;
  bool writable = false;  // otherwise only read and execute
};

// The first version whose domains can leave all files reachable: version 1 forbids moving files between
// folders.
inline constexpr int kLandlockForAllFiles = 2;
// The first version that confines signals and abstract sockets to a domain.
inline constexpr int kLandlockForSignals = 6;

// Puts the calling thread into a new domain that does not restrict files. Allocates nothing unless it fails.
// Errors: UNAVAILABLE if the kernel does not support it.
Status EnterLandlockDomain();

// The same, with access to `paths` only; paths that do not exist are skipped.
Status EnterLandlockDomain(const std::vector<LandlockPath>& paths);

}  // namespace braid
