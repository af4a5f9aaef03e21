// Named threads. Names follow the threads' roles ("brd-grpc-0", "brd-sched", "brd-reap"), so that `top -H`
// reads like the design.
#pragma once

#include <functional>
#include <string>
#include <thread>

#include "base/status.h"

namespace braid {

// Names the calling thread. The kernel keeps 15 characters.
void SetThreadName(const std::string& name);

// Starts a named thread. An exception out of `body` ends the thread with a line on standard error
// (base/guard.h). The guards around the pieces of its work should prevent that.
std::thread StartThread(std::string name, std::function<void()> body);

// Like StartThread(), but returns errors. Errors: RESOURCE_EXHAUSTED if the system allows no more threads.
Result<std::thread> TryStartThread(const std::string& name, std::function<void()> body);

}  // namespace braid
