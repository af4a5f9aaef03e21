// Captures the current stack of another thread of this process, for the log, when a thread stalls.
//
// A signal interrupts the thread, and its handler only records the addresses. The calling thread turns them
// into names. A system call of the interrupted thread continues, or fails with EINTR.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "base/status.h"

namespace braid {

// Returns the system's id of the calling thread.
pid_t ThreadId();

// Returns one line per frame, innermost first: "braid::EventLoop::Round() + 0x2f (braid)". Waits for a
// fraction of a second at most; callers take turns. Errors: NOT_FOUND if the thread does not exist;
// UNAVAILABLE if it takes no signals now, for example while it waits for a disk.
Result<std::vector<std::string>> StackOf(pid_t thread);

}  // namespace braid
