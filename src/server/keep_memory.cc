#include "server/keep_memory.h"

#include <malloc.h>

#include <algorithm>
#include <thread>

namespace braid {

void KeepMemory() {
  mallopt(M_MMAP_THRESHOLD, 1 << 30);
  mallopt(M_TRIM_THRESHOLD, 512 << 20);
  mallopt(M_TOP_PAD, 64 << 20);
  // Free memory at an arena's end is returned only for the main arena (see HeapTrimmer). Threads start and
  // end with models, and each could leave an arena as large as its greatest burst.
  mallopt(M_ARENA_MAX, std::max(2, static_cast<int>(std::thread::hardware_concurrency())));
}

}  // namespace braid
