// The stack of another thread of this process, as it is at the moment: for the log, when a thread stands still.
//
// The thread is asked by a signal, whose handler only notes the addresses; they become names on the thread that asks.
// A system call that the thread is in goes on, or ends with EINTR.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "base/status.h"

namespace braid {

// The id of the calling thread, as the system has it.
pid_t ThreadId();

// One line a frame, the innermost first: "braid::EventLoop::Round() + 0x2f (braid)". One caller at a time waits, for
// a fraction of a second at most. Errors: NOT_FOUND, there is no such thread; UNAVAILABLE, it does not take signals
// now, as while it waits for a disk.
Result<std::vector<std::string>> StackOf(pid_t thread);

}  // namespace braid
