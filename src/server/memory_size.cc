#include "server/memory_size.h"

#include <unistd.h>

#include <algorithm>
#include <fstream>

namespace braid {

uint64_t MemorySize(const std::string& group_folder) {
  uint64_t size =
      static_cast<uint64_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  // Version 2 and version 1 of control groups. A group without a limit has a word, or a number larger than
  // any memory.
  for (const char* file : {"/memory.max", "/memory/memory.limit_in_bytes"}) {
    uint64_t limit = 0;
    if (std::ifstream(group_folder + file) >> limit && limit > 0) size = std::min(size, limit);
  }
  return size;
}

}  // namespace braid
