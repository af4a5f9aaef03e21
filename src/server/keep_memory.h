// Heap settings of a serving process.
#pragma once

namespace braid {

// Keeps large buffers in the process instead of returning them to the system after each request. Touching
// fresh pages costs many times the copy itself. Called once, at the start.
void KeepMemory();

}  // namespace braid
