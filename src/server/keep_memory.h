// How the heap of a process that serves is set up.
#pragma once

namespace braid {

// Large buffers stay with the process instead of going back to the system after each request: touching fresh pages costs
// many times the copy itself. Called once, at the start.
void KeepMemory();

}  // namespace braid
