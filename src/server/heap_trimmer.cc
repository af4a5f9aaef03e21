#include "server/heap_trimmer.h"

#include <malloc.h>
#include <unistd.h>

#include <chrono>
#include <fstream>

#include "base/thread.h"

namespace braid {
namespace {

constexpr auto kInterval = std::chrono::seconds(2);
constexpr int kLooks = 3;

// Returns the private anonymous memory of this process.
size_t OwnBytes() {
  std::ifstream file("/proc/self/statm");
  size_t size = 0;
  size_t resident = 0;
  size_t shared = 0;
  if (!(file >> size >> resident >> shared) || resident < shared) return 0;
  return (resident - shared) * static_cast<size_t>(sysconf(_SC_PAGESIZE));
}

}  // namespace

HeapTrimmer::HeapTrimmer(size_t keep_bytes)
    : keep_bytes_(keep_bytes), thread_(StartThread("brd-trim", [this] { Run(); })) {}

HeapTrimmer::~HeapTrimmer() {
  {
    MutexLock lock(mutex_);
    stopping_ = true;
  }
  stop_.NotifyAll();
  thread_.join();
}

void HeapTrimmer::Run() {
  int excess_seen = 0;
  MutexLock lock(mutex_);
  while (!stopping_) {
    if (stop_.WaitFor(mutex_, kInterval)) continue;
    // mallinfo2() holds the allocator's locks for milliseconds, so it is called only if an excess is
    // possible.
    const bool excess = OwnBytes() > keep_bytes_ && mallinfo2().fordblks > keep_bytes_;
    excess_seen = excess ? excess_seen + 1 : 0;
    if (excess_seen < kLooks) continue;
    excess_seen = 0;
    malloc_trim(keep_bytes_);
  }
}

}  // namespace braid
