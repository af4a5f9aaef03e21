#include "server/keep_memory.h"

#include <malloc.h>

#include <algorithm>
#include <thread>

namespace braid {

void KeepMemory() {
  mallopt(M_MMAP_THRESHOLD, 1 << 30);
  mallopt(M_TRIM_THRESHOLD, 512 << 20);
  mallopt(M_TOP_PAD, 64 << 20);
  // What is free at the end of an arena goes back with nobody but the main one (see HeapTrimmer), and threads
  // that come and go with models would each leave one as large as their greatest burst.
  mallopt(M_ARENA_MAX, std::max(2, static_cast<int>(std::thread::hardware_concurrency())));
}

}  // namespace braid
