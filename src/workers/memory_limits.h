// MemoryLimits: looks at how much memory processes take, and says when one takes more than it may.
//
// A thread of its own ("brd-limits") looks twenty times a second, so that a process which grows by a gigabyte a
// second is seen after 50 MB. What it reads each time costs microseconds and is never less than the true figure; the
// true one, which takes milliseconds, is asked for only when that is above the limit.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <thread>

#include "base/mutex.h"

namespace braid {

class MemoryLimits {
 public:
  // Where the figures come from. Tests have others.
  struct Readers {
    std::function<std::optional<uint64_t>(pid_t)> resident;      // with all that is shared
    std::function<std::optional<uint64_t>(pid_t)> proportional;  // with a share of that: what is limited
  };
  struct Process {
    std::function<pid_t()> id;  // of now; 0: none
    uint64_t most_bytes = 0;
    // It takes this many. Called again about each second while that is so.
    std::function<void(uint64_t bytes)> on_excess;
  };

  MemoryLimits();
  explicit MemoryLimits(Readers readers);
  // REQUIRES: nothing is watched any more.
  ~MemoryLimits();

 private:
  struct Entry {
    Process process;
    pid_t pid = 0;
    // The true figure is asked for again from this time on, or when there is this much of the other.
    int64_t next_ns = 0;
    uint64_t next_resident = 0;
  };

 public:
  // A process that is watched as long as this exists; when it has gone, no function of it runs any more.
  class Watched {
   public:
    Watched(MemoryLimits& limits, std::list<Entry>::iterator entry) : limits_(limits), entry_(entry) {}
    ~Watched();
    Watched(const Watched&) = delete;
    Watched& operator=(const Watched&) = delete;

   private:
    MemoryLimits& limits_;
    const std::list<Entry>::iterator entry_;
  };

  // The functions are called on the thread; they do not block. Any thread.
  std::unique_ptr<Watched> Watch(Process process);

 private:
  static constexpr int64_t kLookNs = 50'000'000;
  static constexpr int64_t kTrueFigureNs = 1'000'000'000;

  void Run();
  void Look(Entry& entry, int64_t now_ns) BRAID_REQUIRES(mutex_);

  const Readers readers_;
  Mutex mutex_;
  CondVar changed_;
  std::list<Entry> entries_ BRAID_GUARDED_BY(mutex_);
  bool stopping_ BRAID_GUARDED_BY(mutex_) = false;
  std::thread thread_ BRAID_GUARDED_BY(mutex_);  // from the first process on
};

}  // namespace braid
