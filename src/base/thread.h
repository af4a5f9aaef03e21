// Threads are named by their role ("brd-grpc-0", "brd-sched", "brd-reap"), so that `top -H` reads like the
// design.
#pragma once

#include <functional>
#include <string>
#include <thread>

#include "base/status.h"

namespace braid {

// Names the calling thread; the kernel keeps 15 characters.
void SetThreadName(const std::string& name);

// Starts a named thread. What `body` throws ends it, with a line on standard error (base/guard.h): the guards
// around the pieces of its work are to keep it from that.
std::thread StartThread(std::string name, std::function<void()> body);

// The same where the caller can say what is wrong. Errors: RESOURCE_EXHAUSTED when there may be no more threads.
Result<std::thread> TryStartThread(const std::string& name, std::function<void()> body);

}  // namespace braid
