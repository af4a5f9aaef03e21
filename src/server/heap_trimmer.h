// HeapTrimmer: gives free memory of the heap back to the system once a burst is over.
//
// The allocator is told to keep large buffers (see main.cc), because touching fresh pages costs many times a
// copy. Without this, what one burst of large requests took would stay for ever.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <mutex>
#include <thread>

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
  std::mutex mutex_;
  std::condition_variable stop_;
  bool stopping_ = false;  // guarded by mutex_
  std::thread thread_;
};

}  // namespace braid
