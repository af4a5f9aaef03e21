// HeapTrimmer: returns the heap's free memory to the system after a burst.
//
// The allocator keeps large buffers (see keep_memory.h), because touching fresh pages costs many times a
// copy. Without this class, the memory of one burst of large requests would stay allocated.
#pragma once

#include <cstddef>
#include <thread>

#include "base/mutex.h"

namespace braid {

class HeapTrimmer {
 public:
  // Starts a thread that checks every two seconds. It trims free memory down to `keep_bytes` if more was free
  // at three checks in a row.
  explicit HeapTrimmer(size_t keep_bytes);
  ~HeapTrimmer();

 private:
  void Run();

  const size_t keep_bytes_;
  Mutex mutex_;
  CondVar stop_;
  bool stopping_ BRAID_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace braid
