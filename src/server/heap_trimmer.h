// HeapTrimmer: gives free memory of the heap back to the system once a burst is over.
//
// The allocator is told to keep large buffers (see main.cc), because touching fresh pages costs many times a
// copy. Without this, what one burst of large requests took would stay for ever.
#pragma once

#include <cstddef>
#include <thread>

#include "base/mutex.h"

namespace braid {

class HeapTrimmer {
 public:
  // Looks every two seconds; what was free each time for six seconds, and is more than `keep_bytes`, goes
  // back.
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
