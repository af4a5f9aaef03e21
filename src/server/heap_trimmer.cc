#include "server/heap_trimmer.h"

#include <malloc.h>

#include <chrono>

#include "base/thread.h"

namespace braid {
namespace {

constexpr auto kInterval = std::chrono::seconds(2);
constexpr int kLooks = 3;

}  // namespace

HeapTrimmer::HeapTrimmer(size_t keep_bytes)
    : keep_bytes_(keep_bytes), thread_(StartThread("brd-trim", [this] { Run(); })) {}

HeapTrimmer::~HeapTrimmer() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  stop_.notify_all();
  thread_.join();
}

void HeapTrimmer::Run() {
  int excess_seen = 0;
  std::unique_lock lock(mutex_);
  while (!stop_.wait_for(lock, kInterval, [this] { return stopping_; })) {
    excess_seen = mallinfo2().fordblks > keep_bytes_ ? excess_seen + 1 : 0;
    if (excess_seen < kLooks) continue;
    excess_seen = 0;
    malloc_trim(keep_bytes_);
  }
}

}  // namespace braid
