#include "server/memory_size.h"

#include <unistd.h>

#include <algorithm>
#include <fstream>

namespace braid {

uint64_t MemorySize(const std::string& group_folder) {
  uint64_t size =
      static_cast<uint64_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  // The second and the first version of control groups; a group without a limit has a word or a number beyond
  // all memory.
  for (const char* file : {"/memory.max", "/memory/memory.limit_in_bytes"}) {
    uint64_t limit = 0;
    if (std::ifstream(group_folder + file) >> limit && limit > 0) size = std::min(size, limit);
  }
  return size;
}

}  // namespace braid
